// Reduce-scatter and all-gather: each rank owns a slice, reduces the contributions of all ranks to
// it, and sends the result to all. Both steps use direct messages, which meets the bound of Thakur,
// Rabenseifner, Gropp 2005. Segments follow each other without a pause. Cost: 2 rounds + 2 (P - 1)
// alpha + 2 (P - 1) / P B beta + B gamma.
#include <array>

#include "collectives/dense/dense.hpp"
#include "collectives/dense/segments.hpp"

namespace sparcl::collectives::dense {
namespace {

constexpr std::uint64_t kSliceAlignment = 64;  // elements

class OwnerExchange {
 public:
  OwnerExchange(const CommContext& comm, const DenseCall& call, SegmentMessages& messages)
      : call_(call),
        messages_(messages),
        rank_(comm.engine->transport().rank()),
        ranks_(comm.engine->transport().size()),
        elements_(segment_elements(comm.link(), ranks_, call.datatype)),
        tree_(comm.kernels->reduce_of(call.datatype), call.reduction, ranks_) {
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    const std::uint64_t share = call.count / ranks + (call.count % ranks != 0);
    slice_ = (share + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  }

  std::uint64_t segments() const {
    return (std::min(slice_, call_.count) + elements_ - 1) / elements_;
  }

  // Posts the receives first, then the s-th segment of each owner's slice.
  void post(std::uint64_t s) {
    Slot& slot = slots_[s % slots_.size()];
    slot.contributions.assign(static_cast<std::size_t>(ranks_), nullptr);
    slot.results.assign(static_cast<std::size_t>(ranks_), nullptr);
    const std::uint64_t own = range_of(rank_, s).count;
    for (int step = 1; step < ranks_; ++step) {
      const int peer = (rank_ + ranks_ - step) % ranks_;
      slot.contributions[static_cast<std::size_t>(peer)] =
          messages_.receive(peer, kContributions, own);
      slot.results[static_cast<std::size_t>(peer)] =
          messages_.receive(peer, kResults, range_of(peer, s).count);
    }
    for (int step = 1; step < ranks_; ++step) {
      const int owner = (rank_ + step) % ranks_;
      messages_.send(owner, kContributions, messages_.pack(range_of(owner, s)));
    }
    slot.own = messages_.pack(range_of(rank_, s));
  }

  const std::vector<transport::OperationRef>& contributions(std::uint64_t s) const {
    return slots_[s % slots_.size()].contributions;
  }
  const std::vector<transport::OperationRef>& results(std::uint64_t s) const {
    return slots_[s % slots_.size()].results;
  }

  void reduce(std::uint64_t s) {
    const Slot& slot = slots_[s % slots_.size()];
    const Range range = range_of(rank_, s);
    if (range.count == 0) return;
    std::vector<const std::byte*> by_rank;
    for (const transport::OperationRef& each : slot.contributions)
      by_rank.push_back(each != nullptr ? each->buffer.data() : slot.own.data());
    tree_.reduce(by_rank, messages_.element_size(), range.count, slot.own.data());
    for (int step = 1; step < ranks_; ++step)
      messages_.send((rank_ + step) % ranks_, kResults, slot.own);
    call_.values->unpack(range.first, range.count, slot.own.data());
  }

  void unpack(std::uint64_t s) const {
    for (int peer = 0; peer < ranks_; ++peer) {
      const transport::OperationRef& result =
          slots_[s % slots_.size()].results[static_cast<std::size_t>(peer)];
      if (result == nullptr) continue;
      const Range range = range_of(peer, s);
      call_.values->unpack(range.first, range.count, result->buffer.data());
    }
  }

 private:
  struct Slot {
    Buffer own;
    std::vector<transport::OperationRef>
        contributions;  // to the own slice, by rank; nullptr: this rank's own, or empty
    std::vector<transport::OperationRef> results;  // of the other slices
  };

  Range range_of(int owner, std::uint64_t s) const {
    const std::uint64_t begin = std::min(static_cast<std::uint64_t>(owner) * slice_, call_.count);
    return segment_of({begin, std::min(slice_, call_.count - begin)}, s, elements_);
  }

  const DenseCall& call_;
  SegmentMessages& messages_;
  int rank_;
  int ranks_;
  std::uint64_t elements_;
  std::uint64_t slice_;
  sparse::RankTree tree_;
  std::array<Slot, 3> slots_;
};

}  // namespace

double owner_seconds(const LinkCost& link, int size, std::uint64_t bytes) {
  const double peers = size - 1, b = static_cast<double>(bytes);
  return 2 * (link.round_s + peers * link.alpha_s) + 2 * peers / size * b * link.beta_s_per_byte +
         b * kCombineSecondsPerByte;
}

Task reduce_by_owner(const CommContext& comm, const DenseCall& call, Traffic& traffic) {
  SegmentMessages messages(comm, call, traffic);
  OwnerExchange exchange(comm, call, messages);
  const std::uint64_t segments = exchange.segments();
  Status alive;
  for (std::uint64_t s = 0; s < segments + 2; ++s) {
    if (s < segments) exchange.post(s);
    co_await comm.engine->yield();
    if (s >= 1 && s <= segments) {
      Task arrival = messages.wait_all(exchange.contributions(s - 1), "a segment to be reduced");
      alive = co_await arrival;
      if (!alive.ok()) co_return alive;
      exchange.reduce(s - 1);
    }
    if (s >= 2) {
      Task arrival = messages.wait_all(exchange.results(s - 2), "a reduced segment");
      alive = co_await arrival;
      if (!alive.ok()) co_return alive;
      exchange.unpack(s - 2);
    }
  }
  Task departure = messages.wait_all(messages.sent(), "its peer to take a segment");
  co_return co_await departure;
}

}  // namespace sparcl::collectives::dense
