#include "collectives/sparse_sum/sparse_all_reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/collective.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/stage_range.hpp"
#include "src/sparse/parts/sorted_entries.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

constexpr const char* kCallName = "sparclAllReduceSparse: ";
constexpr double kCachedBytes =
    12 << 20;  // what all ranks of a core write beyond this will not be found in a cache. Heuristic

// Writes to the caller's arrays: as parts come, where all is known to fit; else when all is there.
class OutputArrays final : public SparseResult {
 public:
  OutputArrays(const CommContext& comm, SparseAllReduceCall& call, bool surely_fits,
               double expected_entries)
      : call_(call),
        kernels_(*comm.kernels),
        width_(element_bytes(call.kind.datatype)),
        surely_fits_(surely_fits) {
    const double written =
        expected_entries * static_cast<double>(width_ + sizeof(std::uint64_t)) * comm.crowding;
    output_ = written > kCachedBytes ? kernels::Output::kStreamed : kernels::Output::kCached;
    call_.out_nnz = 0;
  }

  void take(const Buffer& part, const sparse::PartView& view,
            const sparse::BlockRun& run) override {
    if (surely_fits_) {
      write(view, run);
    } else {
      kept_.push_back({part, view, run});
      kept_entries_ += view.entries();
    }
  }

  // Whether all parts were of this sum: else some of it was not written.
  bool is_whole() const { return is_whole_; }

  Status finish(const Extents& extents, const transport::Transport& transport) {
    if (kept_entries_ > extents.min_capacity) {
      call_.out_nnz = kept_entries_;
      const int least = extents.min_capacity_rank;
      const std::string own = least == transport.rank()
                                  ? "this one"
                                  : fmt::format("this one for {}", call_.out_capacity);
      return Status(Code::kTruncated,
                    fmt::format("{}the sum has {} entries, and rank {} ({}) has room for {} only "
                                "({}): nothing was written; call again with so much room",
                                kCallName, kept_entries_, least, transport.describe_peer(least),
                                extents.min_capacity, own));
    }
    for (const Kept& each : kept_) write(each.view, each.run);
    return Status();
  }

 private:
  struct Kept {
    Buffer part;
    sparse::PartView view;  // of it
    sparse::BlockRun run;
  };

  // A part comes from another rank: nothing goes behind the caller's arrays because of it.
  void write(sparse::PartView view, const sparse::BlockRun& run) {
    if (view.entries() == 0) return;
    is_whole_ = is_whole_ && view.entries() <= call_.out_capacity - call_.out_nnz;
    if (!is_whole_) return;
    kernels_.entries.copy_bytes(view.values(), view.entries() * width_, output_,
                                call_.out_values + call_.out_nnz * width_);
    for (; !view.at_end(); view.next()) {
      const std::size_t count = view.block_entries();
      if (view.is_bitmap()) scratch_.resize(run.block_elements() + kernels::kEntrySlack);
      const std::uint16_t* const positions = view.positions(kernels_, scratch_.data());
      const std::uint64_t base = run.base_of(view.block());
      const bool may_be_outside = call_.count - base <= UINT16_MAX || base >= call_.count;
      if (may_be_outside && !std::all_of(positions, positions + count,
                                         [&](std::uint16_t p) { return base + p < call_.count; })) {
        is_whole_ = false;
        return;
      }
      kernels_.entries.raise_positions(positions, count, base, output_,
                                       call_.out_indices + call_.out_nnz);
      call_.out_nnz += count;
    }
  }

  SparseAllReduceCall& call_;
  const kernels::KernelSet& kernels_;
  std::size_t width_;
  bool surely_fits_;
  kernels::Output output_;
  std::vector<Kept> kept_;
  std::uint64_t kept_entries_ = 0;
  bool is_whole_ = true;
  std::vector<std::uint16_t> scratch_;
};

bool union_fits(const Extents& extents, std::uint64_t count, int ranks) {
  if (count <= extents.min_capacity) return true;
  return extents.max_entries <= extents.min_capacity / static_cast<std::uint64_t>(ranks);
}

CallFingerprint fingerprint_of(const SparseAllReduceCall& call, std::uint8_t forced_row) {
  CallFingerprint fingerprint;
  fingerprint.operation = static_cast<std::uint32_t>(CallKind::kAllReduceSparse);
  fingerprint.datatype = static_cast<std::uint32_t>(call.kind.datatype);
  fingerprint.reduction = call.kind.reduction.is_mean
                              ? comm::kMeanReduction
                              : static_cast<std::uint8_t>(call.kind.reduction.op);
  fingerprint.algorithm = forced_row;
  fingerprint.count = call.count;
  fingerprint.detail = static_cast<std::uint64_t>(call.kind.determinism);
  return fingerprint;
}

}  // namespace

Task all_reduce_sparse(const CommContext& comm, std::uint32_t number, SparseAllReduceCall& call,
                       CallReport& report) {
  Engine& engine = *comm.engine;
  if (!engine.health().ok()) co_return engine.health();
  transport::Transport& transport = engine.transport();
  const int ranks = transport.size();
  SPARCL_FAILPOINT("allreduce.begin");
  const double begin = transport.now();
  sparse::SortedEntries entries;
  if (call.refusal.ok())
    call.refusal = entries.take(call.indices, call.values, call.count, call.kind, *comm.kernels)
                       .with_prefix(kCallName);

  Extents extents;
  if (call.refusal.ok())
    extents = {entries.indices().size(), call.out_capacity, comm.max_scratch_mib,
               entries.has_duplicates(), comm.learned_union->share};

  Status verdict;
  Task agreement = agree(engine, {number, kAgreementLane},
                         fingerprint_of(call, forced_row(comm.sparse_sum_algorithm)), call.refusal,
                         verdict, {}, 0, &extents);
  Status alive = co_await agreement;
  if (!alive.ok()) co_return alive;
  if (!verdict.ok()) {
    transport.close({number, kAgreementLane});
    co_return verdict;
  }
  SPARCL_FAILPOINT("allreduce.agreed");

  const StageRange range("exchange");
  const double exchange_begin = transport.now();
  SparseSumCall sum;
  sum.in = extents.has_duplicates && makes_accumulators(call.kind, *comm.kernels)
               ? sparse::PartValues::kAccumulators
               : sparse::PartValues::kElements;
  if (sum.in == sparse::PartValues::kAccumulators && !entries.has_duplicates())
    entries.widen(call.kind.datatype, *comm.kernels);
  const SumShape shape = sum_shape(
      comm, call.count, extents, part_value_bytes(*comm.kernels, call.kind.datatype, sum.in),
      part_value_bytes(*comm.kernels, call.kind.datatype, sparse::PartValues::kAccumulators));
  OutputArrays output(comm, call, union_fits(extents, call.count, ranks), shape.union_of(ranks));
  sum.indices = entries.indices();
  sum.values = entries.values();
  sum.count = call.count;
  sum.kind = call.kind;
  sum.max_entries = extents.max_entries;
  sum.number = number;
  sum.result = &output;
  const SparseSumPlan plan =
      plan_sparse_sum(comm, shape, call.kind.determinism, comm.sparse_sum_algorithm);
  Task exchange = plan.row->run(comm, sum, report.traffic);
  alive = co_await exchange;
  if (!alive.ok()) co_return alive;
  verdict = output.finish(extents, transport);
  if (!output.is_whole()) co_return refuse_part(comm, kNoPeer);
  comm.learned_union->share =
      static_cast<std::uint16_t>(std::lround(shape.share_of(call.out_nnz) * kWholeUnion));
  SPARCL_FAILPOINT("allreduce.reduced");

  report.algorithm = plan.row->name;
  report.nnz_in = call.indices.size();
  report.nnz_out = call.out_nnz;
  report.dense_bytes = call.count * element_bytes(call.kind.datatype);
  report.bound_bytes = exact_sum_bytes(shape, entries.indices().size(), call.out_nnz);
  report.seconds_predicted = plan.seconds;
  report.wire = sum.in == sparse::PartValues::kAccumulators
                    ? kernels::accumulator_type(call.kind.datatype)
                    : call.kind.datatype;
  report.seconds_exchange = transport.now() - exchange_begin - report.traffic.produce_seconds;
  report.seconds = transport.now() - begin;
  report.applied = verdict.ok();
  for (const std::uint8_t lane : {kAgreementLane, kPartLane, kSumLane}) {
    transport.close({number, lane});
    if (lane != kAgreementLane) transport.close({number, static_cast<std::uint8_t>(lane + 1)});
  }
  co_return verdict;
}

}  // namespace sparcl::collectives::sparse_sum
