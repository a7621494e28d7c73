#include "collectives/top_k/top_k_all_reduce.hpp"

#include <memory>
#include <optional>

#include "collectives/collective.hpp"
#include "collectives/dense/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/top_k/top_k_plan.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/stage_range.hpp"

namespace sparcl::collectives::top_k {
namespace {

void note_selection(sparse::Feedback& feedback, DataType type, const sparse::Selected& selected) {
  ++feedback.stats.calls;
  feedback.stats.selected = selected.indices.size();
  feedback.stats.passes = selected.passes;
  feedback.stats.drift = sparse::threshold_drift(type, feedback.least, selected.least);
  feedback.least = selected.least;
}

}  // namespace

sparse::WireType wire_of(const TopKCall& call) {
  return sparse::wire_type(call.datatype, call.wire);
}

CallFingerprint fingerprint_of(const CommContext& comm, const TopKCall& call) {
  CallFingerprint fingerprint;
  fingerprint.operation = static_cast<std::uint32_t>(CallKind::kAllReduceTopK);
  fingerprint.datatype = static_cast<std::uint32_t>(call.datatype);
  fingerprint.reduction =
      call.is_mean ? comm::kMeanReduction : static_cast<std::uint8_t>(kernels::ReduceOp::kSum);
  fingerprint.algorithm =
      call.mode == TopKMode::kUnion
          ? static_cast<std::uint8_t>(kDenseChoice |
                                      dense::forced_dense_row(comm.all_reduce_algorithm))
          : sparse_sum::forced_row(call.algorithm);
  fingerprint.count = call.count;
  fingerprint.detail = pack_options(call);
  return fingerprint;
}

// elements: the result's values at the support. The residual must hold acc before.
Status keep_from_mean(const TopKPlan& plan, const sparse::Support& support,
                      const std::byte* elements) {
  const TopKCall& call = plan.call;
  if (call.feedback == nullptr || call.kept != TopKResidual::kMean) return Status();
  std::vector<std::byte> means(support.size() * plan.accumulator_bytes());
  sparse::widen_from_wire(plan.kernels, {plan.wire.accumulator, call.datatype}, elements,
                          support.size(), means.data());
  if (!call.is_mean)
    sparse::divide_accumulators(plan.kernels, plan.wire.accumulator, means.data(), support.size(),
                                static_cast<std::uint32_t>(plan.ranks));
  std::vector<std::byte> rest(means.size());
  SPARCL_RETURN_IF_ERROR(plan.arrays.gather(support, rest.data()));
  call.feedback->stats.returned_squares =
      sparse::leave_means(plan.wire.accumulator, means.data(), support.size(), rest.data());
  return plan.arrays.put(support, rest.data());
}

Status end_comm(const CommContext& comm, const Status& failed) {
  comm.engine->fail(failed, comm.engine->transport().rank());
  return comm.engine->health();
}

std::uint64_t pack_options(const TopKCall& call) {
  return call.k << 8 | static_cast<std::uint64_t>(call.mode) << 5 |
         static_cast<std::uint64_t>(call.wire) << 2 | static_cast<std::uint64_t>(call.determinism);
}

TopKOptions unpack_options(std::uint64_t packed) {
  return {packed >> 8, static_cast<std::uint8_t>(packed >> 5 & 3),
          static_cast<std::uint8_t>(packed >> 2 & 7), static_cast<Determinism>(packed & 3)};
}

namespace {

class TopKAllReduce final : public CallBody {
 public:
  TopKAllReduce(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                CallReport& report)
      : comm_(comm), number_(number), call_(call), report_(report) {}

  CallTerms terms() override {
    CallTerms terms;
    terms.fingerprint = fingerprint_of(comm_, call_);
    terms.refusal = call_.refusal;
    if (terms.refusal.ok()) {
      arrays_ = call_.device != nullptr
                    ? top_k_on_device(*comm_.kernels, call_, comm_.engine->transport().size())
                    : top_k_on_host(*comm_.kernels, call_);
      terms.refusal = arrays_->prepare();
    }
    if (terms.refusal.ok())
      terms.extents = {call_.k, UINT64_MAX, comm_.max_scratch_mib, 0, comm_.learned_top_k->share};
    return terms;
  }

  Task run(const Extents& extents) override {
    transport::Transport& transport = comm_.engine->transport();
    std::optional<StageRange> range("select");
    const double select_begin = transport.now();
    const TopKPlan plan{*comm_.kernels, call_, *arrays_, wire_of(call_), transport.size(), extents};
    const Result<sparse::Selected> found = arrays_->select();
    if (!found.ok()) co_return end_comm(comm_, found.status());
    const sparse::Selected selected = *found;
    if (call_.feedback != nullptr) note_selection(*call_.feedback, call_.datatype, selected);
    const double select_seconds = transport.now() - select_begin;
    report_.traffic.produce_seconds = select_seconds;
    SPARCL_FAILPOINT("allreduce.selected");

    range.emplace("exchange");
    const double exchange_begin = transport.now();
    Task exchange = call_.mode == TopKMode::kUnion
                        ? sum_at_union(comm_, number_, plan, selected, report_)
                        : sum_selected(comm_, number_, plan, selected, report_);
    const Status alive = co_await exchange;
    if (!alive.ok()) co_return alive;
    SPARCL_FAILPOINT("allreduce.reduced");
    report_.nnz_in = selected.indices.size();
    report_.dense_bytes = call_.count * element_bytes(call_.datatype);
    report_.bound_bytes = sparse_sum::exact_sum_bytes(
        {plan.ranks, call_.count, call_.k, element_bytes(plan.wire.sent)}, report_.nnz_in,
        report_.nnz_out);
    report_.seconds_exchange =
        transport.now() - exchange_begin - (report_.traffic.produce_seconds - select_seconds);
    report_.applied = true;
    co_return Status();
  }

  std::uint8_t lanes() const override { return kSupportLane + 2; }

 private:
  const CommContext& comm_;
  std::uint32_t number_;
  const TopKCall& call_;
  CallReport& report_;
  std::unique_ptr<TopKArrays> arrays_;
};

}  // namespace

Task all_reduce_top_k(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                      CallReport& report) {
  return agreed_call(comm, number, std::make_unique<TopKAllReduce>(comm, number, call, report),
                     report);
}

}  // namespace sparcl::collectives::top_k
