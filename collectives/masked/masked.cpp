// All-reduce of the elements in a mask (sparclAllReduceMasked). All ranks know the mask, so only
// the values are sent.
#include "collectives/masked/masked.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
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

  // Subtracts the sent values from the residual.
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

class MaskedSum final : public CallBody {
 public:
  MaskedSum(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
            CallReport& report)
      : comm_(comm), number_(number), call_(call), report_(report) {}

  CallTerms terms() override {
    return masked_terms(call_, dense::forced_dense_row(comm_.all_reduce_algorithm), sketch_);
  }

  Task run(const Extents&) override {
    transport::Transport& transport = comm_.engine->transport();
    const std::uint64_t entries = call_.mask->size();
    const std::uint64_t bytes = entries * element_bytes(call_.datatype);
    const dense::DensePlan plan =
        dense::plan_dense(comm_.link(), transport.size(), bytes, comm_.all_reduce_algorithm);
    MaskedValues values(call_, *comm_.kernels);
    values.accumulate();
    SPARCL_FAILPOINT("allreduce.selected");
    const double begin = transport.now();
    std::optional<StageRange> range("exchange");
    const dense::DenseCall dense{entries, call_.datatype, call_.reduction, &values, number_};
    Task exchange = plan.row->run(comm_, dense, report_.traffic);
    const Status alive = co_await exchange;
    if (!alive.ok()) co_return alive;
    report_.seconds_exchange = transport.now() - begin;
    range.reset();
    values.settle();
    if (call_.clears_outside && call_.packed == nullptr)
      call_.mask->clear_outside(call_.datatype, call_.receive);
    SPARCL_FAILPOINT("allreduce.reduced");
    report_.algorithm = plan.row->name;
    report_.seconds_predicted = plan.seconds;
    report_sum(call_, transport.size(), report_);
    co_return Status();
  }

  std::uint8_t lanes() const override { return dense::kResults + 1; }

 private:
  const CommContext& comm_;
  std::uint32_t number_;
  const MaskedCall& call_;
  CallReport& report_;
  sparse::MaskSketch sketch_{};
};

}  // namespace

CallTerms masked_terms(const MaskedCall& call, std::uint8_t algorithm, sparse::MaskSketch& sketch) {
  CallTerms terms;
  terms.refusal = call.refusal;
  terms.fingerprint.operation = static_cast<std::uint32_t>(CallKind::kAllReduceMasked);
  terms.fingerprint.datatype = static_cast<std::uint32_t>(call.datatype);
  terms.fingerprint.reduction =
      call.reduction.is_mean ? kMeanReduction : static_cast<std::uint8_t>(call.reduction.op);
  terms.fingerprint.algorithm = algorithm;
  if (call.refusal.ok()) {
    terms.fingerprint.count = call.mask->count();
    terms.fingerprint.detail = call.mask->identity();
    sketch = call.mask->sketch();
  }
  terms.subject.sketch = std::as_bytes(std::span(&sketch, 1));
  return terms;
}

void report_sum(const MaskedCall& call, int ranks, CallReport& report) {
  const std::uint64_t width = element_bytes(call.datatype);
  const auto size = static_cast<std::uint64_t>(ranks);
  report.nnz_in = report.nnz_out = call.mask->size();
  report.dense_bytes = call.mask->count() * width;
  report.bound_bytes = 2 * call.mask->size() * width / size * (size - 1);
  report.wire = call.datatype;
  report.applied = true;
}

Task all_reduce_masked(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                       CallReport& report) {
  return agreed_call(comm, number, std::make_unique<MaskedSum>(comm, number, call, report), report);
}

}  // namespace sparcl::collectives::masked
