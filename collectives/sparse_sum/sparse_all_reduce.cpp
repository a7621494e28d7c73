#include "collectives/sparse_sum/sparse_all_reduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "collectives/collective.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/stage_range.hpp"
#include "src/sparse/parts/sorted_entries.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

constexpr const char* kCallName = "sparclAllReduceSparse: ";
constexpr double kCachedBytes =
    12
    << 20;  // for all ranks of a core: bytes written beyond it are no longer in a cache. Heuristic

// Values are rounded before they are sent, and parts of the result are accumulators.
bool is_rounded(const SparseAllReduceCall& call) {
  return call.wire != sparse::Wire::kSameType &&
         kernels::accumulator_type(call.kind.datatype) == DataType::kFloat32;
}

// Writes to the caller's arrays: part by part if all is known to fit; else when all parts are
// there.
class OutputArrays final : public SparseResult {
 public:
  OutputArrays(const CommContext& comm, SparseAllReduceCall& call, bool surely_fits,
               double expected_entries)
      : call_(call),
        kernels_(*comm.kernels),
        ranks_(static_cast<std::uint32_t>(comm.engine->transport().size())),
        width_(element_bytes(call.kind.datatype)),
        surely_fits_(surely_fits) {
    if (is_rounded(call)) width_ = element_bytes(kernels::accumulator_type(call.kind.datatype));
    const double written = expected_entries * static_cast<double>(width_ + sizeof(std::uint64_t)) *
                           comm.oversubscription;
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

  // Whether all parts were of this sum: otherwise some of it was not written.
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

  // A part comes from another rank: it must never write beyond the caller's arrays.
  void write(sparse::PartView view, const sparse::BlockRun& run) {
    if (view.entries() == 0) return;
    is_whole_ = is_whole_ && view.entries() <= call_.out_capacity - call_.out_nnz;
    if (!is_whole_) return;
    write_values(view);
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

  void write_values(const sparse::PartView& view) {
    std::byte* const out = call_.out_values + call_.out_nnz * element_bytes(call_.kind.datatype);
    if (!is_rounded(call_))
      return kernels_.entries.copy_bytes(view.values(), view.entries() * width_, output_, out);
    sums_.assign(view.values(), view.values() + view.entries() * width_);
    if (call_.kind.reduction.is_mean)
      sparse::divide_accumulators(kernels_, call_.kind.datatype, sums_.data(), view.entries(),
                                  ranks_);
    const DataType datatype = call_.kind.datatype;
    sparse::round_to_wire(kernels_, {kernels::accumulator_type(datatype), datatype}, sums_.data(),
                          view.entries(), out);
  }

  SparseAllReduceCall& call_;
  const kernels::KernelSet& kernels_;
  std::uint32_t ranks_;
  std::size_t width_;  // of the values in parts
  bool surely_fits_;
  kernels::Output output_;
  std::vector<Kept> kept_;
  std::uint64_t kept_entries_ = 0;
  bool is_whole_ = true;
  std::vector<std::uint16_t> scratch_;
  std::vector<std::byte> sums_;  // of a part, if they are rounded
};

bool union_fits(const Extents& extents, std::uint64_t count, int ranks) {
  if (count <= extents.min_capacity) return true;
  return extents.max_entries <= extents.min_capacity / static_cast<std::uint64_t>(ranks);
}

// A rank's input to the sum, and the type of values in its parts.
struct GivenValues {
  sparse::PartValues in = sparse::PartValues::kElements;
  sparse::PartValues out = sparse::PartValues::kElements;
  sparse::SumKind kind;
  std::vector<std::byte> rounded;  // if they are rounded
  DataType sent = DataType::kFloat32;
  sparse::ValueForm form = sparse::ValueForm::kUnmodified;

  bool are_scaled() const { return form != sparse::ValueForm::kUnmodified; }
};

GivenValues round_values(const SparseAllReduceCall& call, const kernels::KernelSet& kernels,
                         sparse::SortedEntries& entries) {
  const sparse::WireType wire = sparse::wire_type(call.kind.datatype, call.wire);
  if (!entries.has_duplicates() || !makes_accumulators(call.kind, kernels))
    entries.widen(call.kind.datatype, kernels);
  GivenValues given;
  given.out = sparse::PartValues::kAccumulators;
  given.kind = {wire.sent, {call.kind.reduction.op, false}, call.kind.determinism};
  given.rounded.resize(entries.indices().size() * element_bytes(wire.sent));
  sparse::round_to_wire(kernels, wire, entries.values(), entries.indices().size(),
                        given.rounded.data());
  given.sent = wire.sent;
  given.form = wire.form;
  return given;
}

// has_duplicates: of any rank's entries.
GivenValues give_values(const SparseAllReduceCall& call, const kernels::KernelSet& kernels,
                        bool has_duplicates, sparse::SortedEntries& entries) {
  if (is_rounded(call)) return round_values(call, kernels, entries);
  GivenValues given{.kind = call.kind, .rounded = {}, .sent = call.kind.datatype};
  if (!has_duplicates || !makes_accumulators(call.kind, kernels)) return given;
  given.in = sparse::PartValues::kAccumulators;
  given.sent = kernels::accumulator_type(call.kind.datatype);
  if (!entries.has_duplicates()) entries.widen(call.kind.datatype, kernels);
  return given;
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
  fingerprint.detail = pack_options(call);
  return fingerprint;
}

class SparseAllReduce final : public CallBody {
 public:
  SparseAllReduce(const CommContext& comm, std::uint32_t number, SparseAllReduceCall& call,
                  CallReport& report)
      : comm_(comm), number_(number), call_(call), report_(report) {}

  CallTerms terms() override {
    if (call_.refusal.ok())
      call_.refusal =
          entries_.take(call_.indices, call_.values, call_.count, call_.kind, *comm_.kernels)
              .with_prefix(kCallName);
    CallTerms terms;
    terms.fingerprint = fingerprint_of(call_, forced_row(comm_.sparse_sum_algorithm));
    terms.refusal = call_.refusal;
    if (call_.refusal.ok())
      terms.extents = {entries_.indices().size(), call_.out_capacity, comm_.max_scratch_mib,
                       entries_.has_duplicates(), comm_.learned_union->share};
    return terms;
  }

  Task run(const Extents& extents) override {
    const StageRange range("exchange");
    transport::Transport& transport = comm_.engine->transport();
    const double begin = transport.now();
    const GivenValues given = give_values(call_, *comm_.kernels, extents.has_duplicates, entries_);
    SparseSumCall sum = sum_call(extents, given);
    const SumShape shape = sum_shape(
        comm_, call_.count, extents, value_bytes(given.kind.datatype, given.in),
        value_bytes(call_.kind.datatype, sparse::PartValues::kAccumulators), given.are_scaled());
    OutputArrays output(comm_, call_, union_fits(extents, call_.count, transport.size()),
                        shape.union_of(transport.size()));
    sum.result = &output;
    const SparseSumPlan plan =
        plan_sparse_sum(comm_, shape, call_.kind.determinism, comm_.sparse_sum_algorithm);
    Task exchange = plan.row->run(comm_, sum, report_.traffic);
    const Status alive = co_await exchange;
    if (!alive.ok()) co_return alive;
    Status verdict = output.finish(extents, transport);
    if (!output.is_whole()) co_return refuse_part(comm_, kNoPeer);
    comm_.learned_union->share =
        static_cast<std::uint16_t>(std::lround(shape.share_of(call_.out_nnz) * kWholeUnion));
    SPARCL_FAILPOINT("allreduce.reduced");
    report_.seconds_exchange = transport.now() - begin - report_.traffic.produce_seconds;
    report_.bound_bytes = exact_sum_bytes(shape, entries_.indices().size(), call_.out_nnz);
    report_.algorithm = plan.row->name;
    report_.seconds_predicted = plan.seconds;
    report_.applied = verdict.ok();
    report_sum(given);
    co_return verdict;
  }

  std::uint8_t lanes() const override { return kSumLane + 2; }

 private:
  SparseSumCall sum_call(const Extents& extents, const GivenValues& given) const {
    SparseSumCall sum;
    sum.in = given.in;
    sum.out = given.out;
    sum.form = given.form;
    sum.indices = entries_.indices();
    sum.values = is_rounded(call_) ? given.rounded.data() : entries_.values();
    sum.count = call_.count;
    sum.kind = given.kind;
    sum.max_entries = extents.max_entries;
    sum.number = number_;
    return sum;
  }

  std::size_t value_bytes(DataType datatype, sparse::PartValues values) const {
    return part_value_bytes(*comm_.kernels, datatype, values);
  }

  void report_sum(const GivenValues& given) {
    report_.nnz_in = call_.indices.size();
    report_.nnz_out = call_.out_nnz;
    report_.dense_bytes = call_.count * element_bytes(call_.kind.datatype);
    report_.wire =
        given.are_scaled() && !report_.traffic.has_widened ? DataType::kInt8 : given.sent;
  }

  const CommContext& comm_;
  std::uint32_t number_;
  SparseAllReduceCall& call_;
  CallReport& report_;
  sparse::SortedEntries entries_;
};

}  // namespace

std::uint64_t pack_options(const SparseAllReduceCall& call) {
  return static_cast<std::uint64_t>(call.wire) << 2 |
         static_cast<std::uint64_t>(call.kind.determinism);
}

SparseSumOptions unpack_options(std::uint64_t packed) {
  return {static_cast<Determinism>(packed & 3), static_cast<std::uint8_t>(packed >> 2)};
}

Task all_reduce_sparse(const CommContext& comm, std::uint32_t number, SparseAllReduceCall& call,
                       CallReport& report) {
  return agreed_call(comm, number, std::make_unique<SparseAllReduce>(comm, number, call, report),
                     report);
}

}  // namespace sparcl::collectives::sparse_sum
