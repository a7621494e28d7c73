// Each rank sends all its values to all other ranks, and reduces for itself: one round, for few
// bytes. Cost: a round + (P - 1) alpha + (P - 1) B beta + P B gamma.
#include <array>

#include "collectives/dense/dense.hpp"
#include "collectives/dense/segments.hpp"

namespace sparcl::collectives::dense {
namespace {

class DirectExchange {
 public:
  DirectExchange(const CommContext& comm, const DenseCall& call, SegmentMessages& messages)
      : call_(call),
        messages_(messages),
        rank_(comm.engine->transport().rank()),
        ranks_(comm.engine->transport().size()),
        elements_(segment_elements(comm.link(), ranks_, call.datatype)),
        tree_(comm.kernels->reduce_of(call.datatype), call.reduction, ranks_) {}

  std::uint64_t segments() const { return (call_.count + elements_ - 1) / elements_; }

  void post(std::uint64_t s) {
    Slot& slot = slots_[s % 2];
    slot.range = segment_of({0, call_.count}, s, elements_);
    slot.received.assign(static_cast<std::size_t>(ranks_), nullptr);
    for (int step = 1; step < ranks_; ++step) {
      const int peer = (rank_ + ranks_ - step) % ranks_;
      slot.received[static_cast<std::size_t>(peer)] =
          messages_.receive(peer, kContributions, slot.range.count);
    }
    slot.own = messages_.pack(slot.range);
    for (int step = 1; step < ranks_; ++step)
      messages_.send((rank_ + step) % ranks_, kContributions, slot.own);
  }

  const std::vector<transport::OperationRef>& received(std::uint64_t s) const {
    return slots_[s % 2].received;
  }

  void finish(std::uint64_t s) {
    const Slot& slot = slots_[s % 2];
    std::vector<const std::byte*> by_rank;
    for (const transport::OperationRef& each : slot.received)
      by_rank.push_back(each != nullptr ? each->buffer.data() : slot.own.data());
    const Buffer result =
        messages_.take(slot.own.size());  // packed values may still be on their way
    tree_.reduce(by_rank, messages_.element_size(), slot.range.count, result.data());
    call_.values->unpack(slot.range.first, slot.range.count, result.data());
  }

 private:
  struct Slot {
    Range range;
    Buffer own;
    std::vector<transport::OperationRef> received;  // by rank; nullptr: the own one
  };

  const DenseCall& call_;
  SegmentMessages& messages_;
  int rank_;
  int ranks_;
  std::uint64_t elements_;
  sparse::RankTree tree_;
  std::array<Slot, 2> slots_;
};

}  // namespace

double direct_seconds(const LinkCost& link, int size, std::uint64_t bytes) {
  const double peers = size - 1, b = static_cast<double>(bytes);
  return link.round_s + peers * link.alpha_s + peers * b * link.beta_s_per_byte +
         size * b * kCombineSecondsPerByte;
}

Task reduce_direct(const CommContext& comm, const DenseCall& call, Traffic& traffic) {
  SegmentMessages messages(comm, call, traffic);
  DirectExchange exchange(comm, call, messages);
  const std::uint64_t segments = exchange.segments();
  for (std::uint64_t s = 0; s <= segments; ++s) {
    if (s < segments) exchange.post(s);
    co_await comm.engine->yield();
    if (s == 0) continue;
    Task arrival = messages.wait_all(exchange.received(s - 1), "a segment to be reduced");
    const Status alive = co_await arrival;
    if (!alive.ok()) co_return alive;
    exchange.finish(s - 1);
  }
  Task departure = messages.wait_all(messages.sent(), "its peer to take a segment");
  co_return co_await departure;
}

}  // namespace sparcl::collectives::dense
