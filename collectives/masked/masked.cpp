// All-reduce of the elements that a mask has (sparclAllReduceMasked): as all ranks know them, their
// values travel alone.
#include "collectives/masked/masked.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "collectives/collective.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/stage_range.hpp"
#include "src/sparse/selection/residual.hpp"
#include "src/sparse/selection/selection.hpp"

namespace sparcl::collectives::masked {
namespace {

class MaskedValues final : public dense::DenseValues {
 public:
  MaskedValues(const MaskedCall& call, const kernels::KernelSet& kernels)
      : call_(call), kernels_(kernels) {}
  void pack(std::uint64_t first, std::uint64_t count, std::byte* into) const override {
    if (call_.packed != nullptr) {
      std::memcpy(into, at(first), count * element_bytes(call_.datatype));
      return;
    }
    if (call_.feedback == nullptr)
      return call_.mask->pack(call_.send, first, count, call_.datatype, kernels_, into);
    std::vector<std::byte> accumulators(count * element_bytes(wire_.accumulator));
    call_.mask->pack(call_.feedback->residual(), first, count, wire_.accumulator, kernels_,
                     accumulators.data());
    round_to_wire(kernels_, wire_, accumulators.data(), count, into);
  }
  void unpack(std::uint64_t first, std::uint64_t count, const std::byte* from) override {
    if (call_.packed != nullptr) {
      std::memcpy(at(first), from, count * element_bytes(call_.datatype));
      return;
    }
    call_.mask->unpack(from, first, count, call_.datatype, kernels_, call_.receive);
  }

  // The residual becomes acc.
  void accumulate() const {
    if (call_.feedback == nullptr) return;
    sparse::Selection selection(call_.datatype, kernels_);
    (void)selection.select(call_.send, call_.feedback->residual(), call_.mask->count(), 0);
  }

  // What was sent leaves the residual.
  void settle() const {
    if (call_.feedback == nullptr) return;
    constexpr std::uint64_t kAtOnce =
        16384;  // elements: their lines are still near when they are written
    sparse::Feedback& feedback = *call_.feedback;
    std::vector<std::byte> accumulators(kAtOnce * element_bytes(wire_.accumulator)),
        sent(kAtOnce * element_bytes(call_.datatype));
    sparse::FeedbackStats& stats = feedback.stats;
    stats.sent_mass = stats.returned_squares = 0;
    for (std::uint64_t first = 0; first < call_.mask->size(); first += kAtOnce) {
      const std::uint64_t count = std::min(kAtOnce, call_.mask->size() - first);
      call_.mask->pack(feedback.residual(), first, count, wire_.accumulator, kernels_,
                       accumulators.data());
      round_to_wire(kernels_, wire_, accumulators.data(), count, sent.data());
      const sparse::Rest rest =
          leave_rest(kernels_, wire_, sent.data(), count, accumulators.data());
      stats.sent_mass += rest.sent_mass;
      stats.returned_squares += rest.squares;
      call_.mask->unpack(accumulators.data(), first, count, wire_.accumulator, kernels_,
                         feedback.residual());
    }
    ++stats.calls;
    stats.selected = stats.sent = call_.mask->size();
    stats.passes = 1;
  }

 private:
  std::byte* at(std::uint64_t first) const {
    return call_.packed + first * element_bytes(call_.datatype);
  }

  const MaskedCall& call_;
  const kernels::KernelSet& kernels_;
  sparse::WireType wire_{kernels::accumulator_type(call_.datatype), call_.datatype};
};

}  // namespace

Task agree_on_mask(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                   std::uint8_t algorithm, Status& verdict) {
  Engine& engine = *comm.engine;
  const bool takes_part = call.refusal.ok();
  CallFingerprint fingerprint;
  fingerprint.operation = static_cast<std::uint32_t>(CallKind::kAllReduceMasked);
  fingerprint.datatype = static_cast<std::uint32_t>(call.datatype);
  fingerprint.reduction =
      call.reduction.is_mean ? comm::kMeanReduction : static_cast<std::uint8_t>(call.reduction.op);
  fingerprint.algorithm = algorithm;
  fingerprint.count = takes_part ? call.mask->count() : 0;
  fingerprint.detail = takes_part ? call.mask->identity() : 0;
  const sparse::MaskSketch sketch = takes_part ? call.mask->sketch() : sparse::MaskSketch();
  const Subject subject{.sketch = std::as_bytes(std::span(&sketch, 1))};
  Task agreement =
      agree(engine, {number, kAgreementLane}, fingerprint, call.refusal, verdict, subject);
  Status alive = co_await agreement;
  if (alive.ok() && !verdict.ok()) engine.transport().close({number, kAgreementLane});
  co_return alive;
}

Task all_reduce_masked(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                       CallReport& report) {
  Engine& engine = *comm.engine;
  if (!engine.health().ok()) co_return engine.health();
  transport::Transport& transport = engine.transport();
  SPARCL_FAILPOINT("allreduce.begin");
  const double begin = transport.now();
  const std::uint64_t entries = call.refusal.ok() ? call.mask->size() : 0;
  const std::uint64_t bytes = entries * (call.refusal.ok() ? element_bytes(call.datatype) : 0);
  const dense::DensePlan plan =
      dense::plan_dense(comm.link(), transport.size(), bytes, comm.all_reduce_algorithm);

  Status verdict;
  Task agreement = agree_on_mask(comm, number, call,
                                 dense::forced_dense_row(comm.all_reduce_algorithm), verdict);
  Status alive = co_await agreement;
  if (!alive.ok()) co_return alive;
  if (!verdict.ok()) co_return verdict;
  SPARCL_FAILPOINT("allreduce.agreed");

  MaskedValues values(call, *comm.kernels);
  values.accumulate();
  SPARCL_FAILPOINT("allreduce.selected");
  const double exchange_begin = transport.now();
  std::optional<StageRange> range("exchange");
  const dense::DenseCall dense{entries, call.datatype, call.reduction, &values, number};
  Task exchange = plan.row->run(comm, dense, report.traffic);
  alive = co_await exchange;
  if (!alive.ok()) co_return alive;
  const double exchange_end = transport.now();
  range.reset();
  values.settle();
  SPARCL_FAILPOINT("allreduce.reduced");
  report.algorithm = plan.row->name;
  report.nnz_in = report.nnz_out = entries;
  report.dense_bytes = call.mask->count() * element_bytes(call.datatype);
  report.bound_bytes = 2 * bytes / static_cast<std::uint64_t>(transport.size()) *
                       static_cast<std::uint64_t>(transport.size() - 1);
  report.seconds_predicted = plan.seconds;
  report.wire = call.datatype;
  report.seconds_exchange = exchange_end - exchange_begin;
  report.seconds = transport.now() - begin;
  report.applied = true;
  for (const std::uint8_t lane : {kAgreementLane, dense::kContributions, dense::kResults})
    transport.close({number, lane});
  co_return Status();
}

}  // namespace sparcl::collectives::masked
