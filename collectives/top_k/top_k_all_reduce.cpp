#include "collectives/top_k/top_k_all_reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "collectives/agreement/agreement.hpp"
#include "collectives/all_reduce/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/selection/residual.hpp"
#include "collectives/selection/support.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/number.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::uint8_t kAgreement = 0;
constexpr std::uint8_t kSupportLane = 5;  // behind those of dense and sparse sums

// What a call works with, once the ranks have agreed.
struct Plan {
  const kernels::KernelSet& kernels;
  const TopKCall& call;
  WireType wire;
  int ranks;
  Extents extents;  // of all ranks

  std::size_t accumulator_bytes() const { return element_bytes(wire.accumulator); }
};

WireType wire_of(const TopKCall& call) {
  const DataType accumulator = kernels::accumulator_type(call.datatype);
  if (call.wire == TopKWire::kSameType || accumulator != DataType::kFloat32) return {accumulator, call.datatype};
  if (call.wire == TopKWire::kBfloat16) return {accumulator, DataType::kBfloat16};
  return {accumulator, accumulator, true};
}

Support support_of(const kernels::KernelSet& kernels, std::span<const std::uint64_t> indices) {
  Support support(kernels);
  for (const std::uint64_t index : indices) support.append(index);
  return support;
}

bool keeps_sent(const TopKCall& call) { return call.feedback != nullptr && call.kept == TopKResidual::kSent; }

// elements: the result's, where the support is. Before this call the residual is acc.
void keep_from_mean(const Plan& plan, const Support& support, const std::byte* elements) {
  const TopKCall& call = plan.call;
  if (call.feedback == nullptr || call.kept != TopKResidual::kMean) return;
  std::vector<std::byte> means(support.size() * plan.accumulator_bytes());
  widen_from_wire(plan.kernels, {plan.wire.accumulator, call.datatype}, elements, support.size(), means.data());
  if (!call.is_mean)
    divide_accumulators(plan.kernels, plan.wire.accumulator, means.data(), support.size(), static_cast<std::uint32_t>(plan.ranks));
  subtract_means(plan.kernels, plan.wire.accumulator, support, means.data(), call.feedback->residual());
}

// Sums of sparse vectors, as accumulators, become the caller's elements.
void write_sums(const Plan& plan, const Support& support, std::vector<std::byte>& sums) {
  const TopKCall& call = plan.call;
  const std::size_t width = element_bytes(call.datatype);
  std::vector<std::byte> elements(support.size() * width);
  if (call.is_mean)
    divide_accumulators(plan.kernels, call.datatype, sums.data(), support.size(), static_cast<std::uint32_t>(plan.ranks));
  round_to_wire(plan.kernels, {plan.wire.accumulator, call.datatype}, sums.data(), support.size(), elements.data());
  write_supported(plan.kernels, support, elements.data(), width, call.count, call.receive);
  keep_from_mean(plan, support, elements.data());
}

// Values in a row, reduced where they are.
class ContiguousValues final : public DenseValues {
 public:
  ContiguousValues(std::byte* values, std::size_t width) : values_(values), width_(width) {}
  void pack(std::uint64_t first, std::uint64_t count, std::byte* into) const override {
    std::memcpy(into, values_ + first * width_, count * width_);
  }
  void unpack(std::uint64_t first, std::uint64_t count, const std::byte* from) override {
    std::memcpy(values_ + first * width_, from, count * width_);
  }

 private:
  std::byte* values_;
  std::size_t width_;
};

// The elements that any rank has selected: everyone's are sent to everyone.
Task gather_supports(const CommContext& comm, std::uint32_t number, const TopKCall& call, std::span<const std::uint64_t> own,
                     Support& all, Traffic& traffic) {
  const int rank = comm.engine->transport().rank(), ranks = comm.engine->transport().size();
  const BlockRun run{0, (call.count >> 16) + ((call.count & 0xffff) != 0 ? 1 : 0), 16};
  const std::uint64_t most_bytes = most_part_bytes(run, call.k, 0);
  const PartShape shape{run, 0, false};
  PartMessages messages(comm, number, traffic);
  std::vector<PartMessages::Arrival> arrivals(static_cast<std::size_t>(ranks));
  for (int step = 1; step < ranks; ++step) {
    const int peer = (rank + ranks - step) % ranks;
    arrivals[static_cast<std::size_t>(peer)] = messages.receive(peer, kSupportLane, shape, most_bytes);
  }
  arrivals[static_cast<std::size_t>(rank)].part = write_part(comm.outgoing(), *comm.kernels, run, own, nullptr, 0);
  for (int step = 1; step < ranks; ++step)
    messages.send((rank + step) % ranks, kSupportLane, arrivals[static_cast<std::size_t>(rank)].part, shape);
  std::vector<std::span<const std::byte>> parts;
  for (PartMessages::Arrival& arrival : arrivals) {
    if (arrival.peer >= 0) {
      Task waiting = messages.wait(arrival, "what its peer selected");
      const Status alive = co_await waiting;
      if (!alive.ok()) co_return alive;
    }
    parts.push_back(arrival.part.bytes());
  }
  if (!all.unite(parts, run, call.count)) co_return refuse_part(comm, rank == 0 ? ranks - 1 : 0);
  Task departure = messages.wait_sent();
  co_return co_await departure;
}

// What the residual gets back of elements whose values were sent: all of those that are not kept, and what was rounded off the
// others.
double returned_squares(const Plan& plan, const std::byte* accumulators, const std::byte* sent, std::size_t count,
                        const std::vector<bool>* is_kept) {
  if (plan.wire.is_exact() && is_kept == nullptr) return 0;
  const std::size_t width = plan.accumulator_bytes();
  std::vector<std::byte> seen(count * width);
  widen_from_wire(plan.kernels, plan.wire, sent, count, seen.data());
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double acc = load_number(plan.wire.accumulator, accumulators + i * width);
    const bool kept = is_kept == nullptr || (*is_kept)[i];
    const double rest = kept ? acc - load_number(plan.wire.accumulator, seen.data() + i * width) : acc;
    if (!std::isnan(rest)) squares += rest * rest;
  }
  return squares;
}

// What this rank sends at the union's elements: acc, rounded, which leaves the residual for good when the sum is there.
class SentAtUnion {
 public:
  SentAtUnion(const CommContext& comm, const Plan& plan, const Support& support)
      : plan_(plan),
        support_(support),
        residual_(plan.call.feedback != nullptr ? plan.call.feedback->residual() : nullptr),
        accumulators_(comm.buffers->take(support.size() * plan.accumulator_bytes())),
        sent_(comm.buffers->take(support.size() * std::max(element_bytes(plan.wire.sent), element_bytes(plan.call.datatype)))) {
    if (is_widened()) widened_ = comm.buffers->take(accumulators_.size());
  }
  // A call that has failed leaves acc in the residual.
  ~SentAtUnion() {
    if (is_taken_) support_.put(accumulators_.data(), plan_.accumulator_bytes(), residual_);
  }
  SentAtUnion(const SentAtUnion&) = delete;
  SentAtUnion& operator=(const SentAtUnion&) = delete;

  void take() {
    const kernels::KernelSet& kernels = plan_.kernels;
    if (residual_ != nullptr && keeps_sent(plan_.call)) {
      support_.take(residual_, plan_.accumulator_bytes(), accumulators_.data());
      is_taken_ = true;
    } else {
      gather_accumulators(kernels, plan_.call.datatype, support_, plan_.call.send, residual_, accumulators_.data());
    }
    round_to_wire(kernels, plan_.wire, accumulators_.data(), support_.size(), sent_.data());
    if (is_widened()) widen_from_wire(kernels, plan_.wire, sent_.data(), support_.size(), widened_.data());
    if (residual_ == nullptr) return;
    FeedbackStats& stats = plan_.call.feedback->stats;
    if (plan_.wire.is_exact()) {
      stats.returned_squares = 0;
      stats.sent_mass = mass_of(plan_.wire.accumulator, accumulators_.data(), support_.size());
      return;
    }
    std::vector<std::byte> left(accumulators_.data(), accumulators_.data() + accumulators_.size());
    const Rest rest = leave_rest(kernels, plan_.wire, sent_.data(), support_.size(), left.data());
    stats.returned_squares = rest.squares;
    stats.sent_mass = rest.sent_mass;
    if (is_taken_) support_.put(left.data(), plan_.accumulator_bytes(), residual_);
  }

  // The call has succeeded.
  void let_go() { is_taken_ = false; }

  // What is rounded further than elements travels as accumulators: sums are not rounded twice.
  DataType type() const { return is_widened() ? plan_.wire.accumulator : plan_.call.datatype; }
  std::byte* travelling() { return is_widened() ? widened_.data() : sent_.data(); }
  // As elements, once the sum is where the values were.
  const std::byte* received() {
    if (is_widened())
      round_to_wire(plan_.kernels, {plan_.wire.accumulator, plan_.call.datatype}, widened_.data(), support_.size(), sent_.data());
    return sent_.data();
  }

 private:
  bool is_widened() const { return plan_.wire.sent != plan_.call.datatype; }

  const Plan& plan_;
  const Support& support_;
  std::byte* residual_;
  bool is_taken_ = false;  // from the residual
  Buffer accumulators_;    // acc
  Buffer sent_;            // as it is rounded
  Buffer widened_;
};

// Mode union: a dense sum of all ranks' values at the union.
Task sum_at_union(const CommContext& comm, std::uint32_t number, const Plan& plan, const Selected& selected, CallReport& report) {
  const TopKCall& call = plan.call;
  Support support(plan.kernels);
  Task gathering = gather_supports(comm, number, call, selected.indices, support, report.traffic);
  Status alive = co_await gathering;
  if (!alive.ok()) co_return alive;

  SentAtUnion sent(comm, plan, support);
  sent.take();
  ContiguousValues in_place(sent.travelling(), element_bytes(sent.type()));
  const DensePlan dense =
      plan_dense(comm.link(), plan.ranks, support.size() * element_bytes(sent.type()), comm.all_reduce_algorithm);
  const DenseCall sum{support.size(), sent.type(), {kernels::ReduceOp::kSum, call.is_mean}, &in_place, number};
  Task exchange = dense.row->run(comm, sum, report.traffic);
  alive = co_await exchange;
  if (!alive.ok()) co_return alive;
  const std::byte* const elements = sent.received();
  write_supported(plan.kernels, support, elements, element_bytes(call.datatype), call.count, call.receive);
  keep_from_mean(plan, support, elements);
  sent.let_go();
  report.algorithm = dense.row->name;
  report.seconds_predicted = dense.seconds;
  report.nnz_out = support.size();
  co_return Status();
}

// Collects a sparse sum.
class CollectedSum final : public SparseResult {
 public:
  CollectedSum(const kernels::KernelSet& kernels, std::size_t width, std::uint64_t count)
      : kernels_(kernels), width_(width), count_(count), support(kernels) {}
  void take(const Buffer&, const PartView& part, const BlockRun& run) override {
    sums.insert(sums.end(), part.values(), part.values() + part.entries() * width_);
    for (PartView view = part; !view.at_end(); view.next()) {
      if (view.is_bitmap()) scratch_.resize(run.block_elements() + kernels::kEntrySlack);
      const std::uint16_t* const positions = view.positions(kernels_, scratch_.data());
      const std::uint64_t base = run.base_of(view.block());
      is_inside = is_inside && base + *std::max_element(positions, positions + view.block_entries()) < count_;
      support.append(base, positions, view.block_entries());
    }
  }

 private:
  const kernels::KernelSet& kernels_;
  std::size_t width_;
  std::uint64_t count_;
  std::vector<std::uint16_t> scratch_;

 public:
  bool is_inside = true;  // no element is one that the arrays have not
  Support support;
  std::vector<std::byte> sums;  // accumulators
};

// Keeps the k largest sums; of equal ones those with the lower index.
void keep_largest(const Plan& plan, CollectedSum& sum) {
  if (sum.support.size() <= plan.call.k) return;
  Candidates candidates(plan.wire.accumulator);
  candidates.reserve(sum.support.size());
  for (const Support::Block& block : sum.support.blocks()) {
    std::memcpy(candidates.tail(), sum.sums.data() + block.first * plan.accumulator_bytes(),
                block.count * plan.accumulator_bytes());
    candidates.add(block.base, sum.support.positions(block), block.count);
  }
  (void)candidates.cut(0, plan.call.k);
  sum.support = support_of(plan.kernels, candidates.indices());
  sum.sums.assign(candidates.accumulators(), candidates.accumulators() + candidates.size() * plan.accumulator_bytes());
}

// The entries of this rank whose elements are kept.
struct SentEntries {
  Support support;
  std::vector<std::byte> sent;
  std::vector<bool> is_kept;  // by selected element
};
SentEntries kept_entries(const Plan& plan, const Selected& selected, const std::vector<std::byte>& sent, const Support& kept) {
  SentEntries own{Support(plan.kernels), {}, std::vector<bool>(selected.indices.size())};
  const std::size_t width = element_bytes(plan.wire.sent);
  std::size_t i = 0;
  for (const Support::Block& block : kept.blocks()) {
    const std::uint16_t* const positions = kept.positions(block);
    for (std::size_t j = 0; j < block.count; ++j) {
      const std::uint64_t index = block.base + positions[j];
      while (i < selected.indices.size() && selected.indices[i] < index) ++i;
      if (i == selected.indices.size()) return own;
      if (selected.indices[i] != index) continue;
      own.support.append(index);
      own.is_kept[i] = true;
      own.sent.insert(own.sent.end(), sent.begin() + static_cast<std::ptrdiff_t>(i * width),
                      sent.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    }
  }
  return own;
}

// Modes selected and global: a sparse sum of what the ranks selected.
Task sum_selected(const CommContext& comm, std::uint32_t number, const Plan& plan, const Selected& selected, CallReport& report) {
  const TopKCall& call = plan.call;
  std::vector<std::byte> sent(selected.indices.size() * element_bytes(plan.wire.sent));
  round_to_wire(plan.kernels, plan.wire, selected.accumulators, selected.indices.size(), sent.data());
  CollectedSum collected(plan.kernels, plan.accumulator_bytes(), call.count);
  SparseSumCall sum;
  sum.indices = selected.indices;
  sum.values = sent.data();
  sum.out = PartValues::kAccumulators;
  sum.count = call.count;
  sum.kind = {plan.wire.sent, {kernels::ReduceOp::kSum, false}, call.determinism};
  sum.values_are_scaled = plan.wire.is_scaled;
  sum.most_entries = call.k;
  sum.number = number;
  sum.result = &collected;
  const SumShape shape = sum_shape(comm, call.count, plan.extents, element_bytes(plan.wire.sent), plan.accumulator_bytes());
  const SparseSumPlan row = plan_sparse_sum(comm, shape, call.determinism, call.algorithm);
  Task exchange = row.row->run(comm, sum, report.traffic);
  const Status alive = co_await exchange;
  if (!alive.ok()) co_return alive;

  if (!collected.is_inside) co_return refuse_part(comm, comm.engine->transport().rank() == 0 ? plan.ranks - 1 : 0);
  comm.learned_top_k->share = static_cast<std::uint16_t>(std::lround(shape.share_of(collected.support.size()) * kWholeUnion));
  if (call.mode == TopKMode::kGlobal) keep_largest(plan, collected);
  if (call.feedback != nullptr) {
    const SentEntries own = kept_entries(plan, selected, sent, collected.support);
    if (keeps_sent(call)) subtract_sent(plan.kernels, plan.wire, own.support, own.sent.data(), call.feedback->residual());
    std::vector<std::byte> decoded(own.support.size() * plan.accumulator_bytes());
    widen_from_wire(plan.kernels, plan.wire, own.sent.data(), own.support.size(), decoded.data());
    call.feedback->stats.returned_squares = returned_squares(plan, selected.accumulators, sent.data(), selected.indices.size(),
                                                             call.mode == TopKMode::kGlobal ? &own.is_kept : nullptr);
    call.feedback->stats.sent_mass = mass_of(plan.wire.accumulator, decoded.data(), own.support.size());
  }
  write_sums(plan, collected.support, collected.sums);
  report.algorithm = row.row->name;
  report.seconds_predicted = row.seconds;
  report.nnz_out = collected.support.size();
  co_return Status();
}

void note_selection(Feedback& feedback, DataType type, const Selected& selected) {
  ++feedback.stats.calls;
  feedback.stats.selected = selected.indices.size();
  feedback.stats.passes = selected.passes;
  feedback.stats.drift = threshold_drift(type, feedback.least, selected.least);
  feedback.least = selected.least;
}

CallFingerprint fingerprint_of(const CommContext& comm, const TopKCall& call) {
  CallFingerprint fingerprint;
  fingerprint.operation = static_cast<std::uint32_t>(CallKind::kAllReduceTopK);
  fingerprint.datatype = static_cast<std::uint32_t>(call.datatype);
  fingerprint.reduction = call.is_mean ? kMeanReduction : static_cast<std::uint8_t>(kernels::ReduceOp::kSum);
  fingerprint.algorithm = call.mode == TopKMode::kUnion
                              ? static_cast<std::uint8_t>(kDenseChoice | forced_dense_row(comm.all_reduce_algorithm))
                              : forced_row(call.algorithm);
  fingerprint.count = call.count;
  fingerprint.detail = pack_options(call);
  return fingerprint;
}

}  // namespace

std::uint64_t pack_options(const TopKCall& call) {
  return call.k << 8 | static_cast<std::uint64_t>(call.mode) << 4 | static_cast<std::uint64_t>(call.wire) << 2 |
         static_cast<std::uint64_t>(call.determinism);
}

TopKOptions unpack_options(std::uint64_t packed) {
  return {packed >> 8, static_cast<std::uint8_t>(packed >> 4 & 3), static_cast<std::uint8_t>(packed >> 2 & 3),
          static_cast<Determinism>(packed & 3)};
}

Task all_reduce_top_k(const CommContext& comm, std::uint32_t number, const TopKCall& call, CallReport& report) {
  Engine& engine = *comm.engine;
  if (!engine.health().ok()) co_return engine.health();
  Transport& transport = engine.transport();
  SPARCL_FAILPOINT("allreduce.begin");
  const double begin = transport.now();
  Status verdict;
  Extents extents;
  if (call.refusal.ok()) extents = {call.k, UINT64_MAX, comm.most_scratch_mib, 0, comm.learned_top_k->share};
  Task agreement = agree(engine, {number, kAgreement}, fingerprint_of(comm, call), call.refusal, verdict, {}, 0, &extents);
  Status alive = co_await agreement;
  if (!alive.ok()) co_return alive;
  if (!verdict.ok()) {
    transport.close({number, kAgreement});
    co_return verdict;
  }
  SPARCL_FAILPOINT("allreduce.agreed");

  const double select_begin = transport.now();
  const Plan plan{*comm.kernels, call, wire_of(call), transport.size(), extents};
  Selection selection(call.datatype, *comm.kernels);
  std::byte* const residual = call.feedback != nullptr ? call.feedback->residual() : nullptr;
  const std::uint64_t hint = call.reuses_threshold && call.feedback != nullptr ? call.feedback->least : 0;
  const Selected selected = call.tensors.empty() ? selection.select(call.send, residual, call.count, call.k, hint)
                                                 : selection.select_parts(call.send, residual, call.tensors);
  if (call.feedback != nullptr) note_selection(*call.feedback, call.datatype, selected);
  const double select_seconds = transport.now() - select_begin;
  report.traffic.produce_seconds = select_seconds;
  SPARCL_FAILPOINT("allreduce.selected");

  const double exchange_begin = transport.now();
  Task exchange = call.mode == TopKMode::kUnion ? sum_at_union(comm, number, plan, selected, report)
                                                : sum_selected(comm, number, plan, selected, report);
  alive = co_await exchange;
  if (!alive.ok()) co_return alive;
  SPARCL_FAILPOINT("allreduce.reduced");
  report.nnz_in = selected.indices.size();
  report.dense_bytes = call.count * element_bytes(call.datatype);
  report.bound_bytes =
      exact_sum_bytes({plan.ranks, call.count, call.k, element_bytes(plan.wire.sent)}, report.nnz_in, report.nnz_out);
  report.seconds_exchange = transport.now() - exchange_begin - (report.traffic.produce_seconds - select_seconds);
  report.seconds = transport.now() - begin;
  report.applied = true;
  for (std::uint8_t lane = kAgreement; lane <= kSupportLane + 1; ++lane) transport.close({number, lane});
  co_return Status();
}

}  // namespace sparcl::collectives
