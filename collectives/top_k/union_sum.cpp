// Top-k in mode union: the coded indices of all ranks are gathered and united. A dense sum of the
// values at the union follows.
#include <cstring>

#include "collectives/dense/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/top_k/top_k_plan.hpp"

namespace sparcl::collectives::top_k {
namespace {

// Consecutive values, reduced in place.
class ContiguousValues final : public dense::DenseValues {
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

// The elements that any rank has selected: every rank sends its own to all.
Task gather_supports(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                     std::span<const std::uint64_t> own, sparse::Support& all, Traffic& traffic) {
  const int rank = comm.engine->transport().rank(), ranks = comm.engine->transport().size();
  const sparse::BlockRun run{0, (call.count >> 16) + ((call.count & 0xffff) != 0 ? 1 : 0), 16};
  const std::uint64_t max_bytes = max_part_bytes(run, call.k, 0);
  const sparse::PartShape shape{run, 0};
  sparse_sum::PartMessages messages(comm, number, traffic);
  std::vector<sparse_sum::PartMessages::Arrival> arrivals(static_cast<std::size_t>(ranks));
  for (int step = 1; step < ranks; ++step) {
    const int peer = (rank + ranks - step) % ranks;
    arrivals[static_cast<std::size_t>(peer)] =
        messages.receive(peer, kSupportLane, shape, max_bytes);
  }
  arrivals[static_cast<std::size_t>(rank)].part =
      write_part(comm.outgoing(), *comm.kernels, run, own, nullptr, 0);
  for (int step = 1; step < ranks; ++step)
    messages.send((rank + step) % ranks, kSupportLane,
                  arrivals[static_cast<std::size_t>(rank)].part, shape);
  std::vector<std::span<const std::byte>> parts;
  for (sparse_sum::PartMessages::Arrival& arrival : arrivals) {
    if (arrival.peer >= 0) {
      Task waiting = messages.wait(arrival, "what its peer selected");
      const Status alive = co_await waiting;
      if (!alive.ok()) co_return alive;
    }
    parts.push_back(arrival.part.bytes());
  }
  if (!all.unite(parts, run, call.count))
    co_return sparse_sum::refuse_part(comm, sparse_sum::kNoPeer);
  Task departure = messages.wait_sent();
  co_return co_await departure;
}

// The values that this rank sends at the union's elements: acc, rounded. They leave the residual
// for good once the sum is there.
class SentAtUnion {
 public:
  SentAtUnion(const CommContext& comm, const TopKPlan& plan, const sparse::Support& support)
      : plan_(plan),
        support_(support),
        accumulators_(comm.buffers->take(support.size() * plan.accumulator_bytes())),
        sent_(comm.buffers->take(support.size() * std::max(element_bytes(plan.wire.sent),
                                                           element_bytes(plan.call.datatype)))) {
    if (is_widened()) widened_ = comm.buffers->take(accumulators_.size());
  }
  // A failed call leaves acc in the residual.
  ~SentAtUnion() {
    if (is_taken_) (void)plan_.arrays.put(support_, accumulators_.data());
  }
  SentAtUnion(const SentAtUnion&) = delete;
  SentAtUnion& operator=(const SentAtUnion&) = delete;

  Status take() {
    const kernels::KernelSet& kernels = plan_.kernels;
    if (keeps_sent(plan_.call)) {
      SPARCL_RETURN_IF_ERROR(plan_.arrays.take(support_, accumulators_.data()));
      is_taken_ = true;
    } else {
      SPARCL_RETURN_IF_ERROR(plan_.arrays.gather(support_, accumulators_.data()));
    }
    round_to_wire(kernels, plan_.wire, accumulators_.data(), support_.size(), sent_.data());
    if (is_widened())
      widen_from_wire(kernels, plan_.wire, sent_.data(), support_.size(), widened_.data());
    if (plan_.call.feedback == nullptr) return Status();
    sparse::FeedbackStats& stats = plan_.call.feedback->stats;
    stats.sent = support_.size();
    if (plan_.wire.is_exact()) {
      stats.returned_squares = 0;
      stats.sent_mass =
          sparse::mass_of(plan_.wire.accumulator, accumulators_.data(), support_.size());
      return Status();
    }
    std::vector<std::byte> left(accumulators_.data(), accumulators_.data() + accumulators_.size());
    const sparse::Rest rest =
        leave_rest(kernels, plan_.wire, sent_.data(), support_.size(), left.data());
    stats.returned_squares = rest.squares;
    stats.sent_mass = rest.sent_mass;
    return is_taken_ ? plan_.arrays.put(support_, left.data()) : Status();
  }

  // Call it when the call has succeeded.
  void let_go() { is_taken_ = false; }

  // Values that are rounded further than elements are sent as accumulators, so that sums are not
  // rounded twice.
  DataType type() const { return is_widened() ? plan_.wire.accumulator : plan_.call.datatype; }
  std::byte* travelling() { return is_widened() ? widened_.data() : sent_.data(); }
  // As elements, once the sum has replaced the values.
  const std::byte* received() {
    if (is_widened())
      sparse::round_to_wire(plan_.kernels, {plan_.wire.accumulator, plan_.call.datatype},
                            widened_.data(), support_.size(), sent_.data());
    return sent_.data();
  }

 private:
  bool is_widened() const { return plan_.wire.sent != plan_.call.datatype; }

  const TopKPlan& plan_;
  const sparse::Support& support_;
  bool is_taken_ = false;  // from the residual
  Buffer accumulators_;    // acc
  Buffer sent_;            // as it is rounded
  Buffer widened_;
};

}  // namespace

Task sum_at_union(const CommContext& comm, std::uint32_t number, const TopKPlan& plan,
                  const sparse::Selected& selected, CallReport& report) {
  const TopKCall& call = plan.call;
  sparse::Support support(plan.kernels);
  Task gathering = gather_supports(comm, number, call, selected.indices, support, report.traffic);
  Status alive = co_await gathering;
  if (!alive.ok()) co_return alive;

  SentAtUnion sent(comm, plan, support);
  const Status taken = sent.take();
  if (!taken.ok()) co_return end_comm(comm, taken);
  ContiguousValues in_place(sent.travelling(), element_bytes(sent.type()));
  const dense::DensePlan dense =
      dense::plan_dense(comm.link(), plan.ranks, support.size() * element_bytes(sent.type()),
                        comm.all_reduce_algorithm);
  const dense::DenseCall sum{
      support.size(), sent.type(), {kernels::ReduceOp::kSum, call.is_mean}, &in_place, number};
  Task exchange = dense.row->run(comm, sum, report.traffic);
  alive = co_await exchange;
  if (!alive.ok()) co_return alive;
  const std::byte* const elements = sent.received();
  Status written = plan.arrays.write(support, elements);
  if (written.ok()) written = keep_from_mean(plan, support, elements);
  if (!written.ok()) co_return end_comm(comm, written);
  sent.let_go();
  report.algorithm = dense.row->name;
  report.seconds_predicted = dense.seconds;
  report.wire = sent.type();
  report.nnz_out = support.size();
  co_return Status();
}

}  // namespace sparcl::collectives::top_k
