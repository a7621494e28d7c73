// SSAR_split (Renggli et al., SparCML, SC 2019): each rank owns some blocks of every group of
// blocks. It sums the entries of all ranks there, and sends the sum to all. Groups follow each
// other without a pause, so that the bytes in flight stay in a cache. Clustered entries are spread
// over the owners as far as they spread over blocks. Cost: 2 (P - 1) alpha a group, (P - 1) / P (k
// + K) w beta, log2(P) k gamma.
#include <array>

#include "collectives/sparse_sum/block_groups.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

class SplitExchange {
 public:
  SplitExchange(const CommContext& comm, const SparseSumCall& call, PartMessages& messages,
                Traffic& traffic)
      : comm_(comm),
        call_(call),
        messages_(messages),
        traffic_(traffic),
        rank_(comm.engine->transport().rank()),
        ranks_(comm.engine->transport().size()),
        whole_(whole_run(comm, call)),
        in_bytes_(part_value_bytes(*comm.kernels, call.kind.datatype, call.in)),
        out_bytes_(part_value_bytes(*comm.kernels, call.kind.datatype, call.out)),
        groups_(block_groups(comm.link(), whole_, call.max_entries, ranks_)),
        sum_(comm.outgoing(), *comm.kernels, call.kind, static_cast<std::size_t>(ranks_), call.in,
             call.out, call.kind.reduction.is_mean ? static_cast<std::uint32_t>(ranks_) : 1),
        own_parts_(comm, call, traffic) {}

  std::uint64_t groups() const { return groups_.count; }

  // Posts the receives first, then each owner's entries.
  void post(std::uint64_t g) {
    Slot& slot = slots_[g % slots_.size()];
    slot.contributions.assign(static_cast<std::size_t>(ranks_), {});
    slot.sums.assign(static_cast<std::size_t>(ranks_), {});
    for (int step = 1; step < ranks_; ++step) {
      const int peer = (rank_ + ranks_ - step) % ranks_;
      slot.contributions[static_cast<std::size_t>(peer)] =
          messages_.receive(peer, kPartLane, contribution_shape(rank_, g), max_contribution(g));
      slot.sums[static_cast<std::size_t>(peer)] =
          messages_.receive(peer, kSumLane, sum_shape(peer, g), max_sum(peer, g));
    }
    for (int owner = 0; owner < ranks_; ++owner) {
      sparse::PartShape shape = contribution_shape(owner, g);
      shape.values_before = own_parts_.taken();
      const Buffer part = own_parts_.take(shape.run);
      if (owner == rank_) {
        slot.own = part;
      } else {
        messages_.send(owner, kPartLane, part, shape);
      }
    }
  }

  Task wait_contributions(std::uint64_t g) {
    for (PartMessages::Arrival& arrival : slots_[g % slots_.size()].contributions) {
      if (arrival.peer < 0) continue;
      Task waiting = messages_.wait(arrival, "entries to be summed");
      const Status alive = co_await waiting;
      if (!alive.ok()) co_return alive;
    }
    co_return Status();
  }

  Status sum(std::uint64_t g) {
    Slot& slot = slots_[g % slots_.size()];
    std::vector<std::span<const std::byte>> parts;
    for (const PartMessages::Arrival& each : slot.contributions)
      parts.push_back(each.peer < 0 ? slot.own.bytes() : each.part.bytes());
    std::optional<Buffer> sum = sum_.sum(parts, run_of(rank_, g));
    if (!sum) return refuse_part(comm_, static_cast<int>(sum_.refused()));
    slot.own = std::move(*sum);
    const sparse::PartShape shape = sum_shape(rank_, g);
    for (int step = 1; step < ranks_; ++step)
      messages_.send((rank_ + step) % ranks_, kSumLane, slot.own, shape);
    return Status();
  }

  Task take_sums(std::uint64_t g) {
    Slot& slot = slots_[g % slots_.size()];
    for (int owner = 0; owner < ranks_; ++owner) {
      PartMessages::Arrival& arrival = slot.sums[static_cast<std::size_t>(owner)];
      if (owner != rank_) {
        Task waiting = messages_.wait(arrival, "a sum");
        const Status alive = co_await waiting;
        if (!alive.ok()) co_return alive;
      }
      const Buffer& part = owner == rank_ ? slot.own : arrival.part;
      const std::optional<sparse::PartView> view =
          sparse::PartView::read(*comm_.kernels, part.bytes(), run_of(owner, g), out_bytes_);
      if (!view) co_return refuse_part(comm_, owner);
      hand_over(comm_, call_, part, *view, run_of(owner, g), traffic_);
    }
    co_return Status();
  }

 private:
  struct Slot {
    Buffer own;  // the own contribution, then its sum
    std::vector<PartMessages::Arrival>
        contributions;  // to the own blocks, by rank; peer -1: this rank's own
    std::vector<PartMessages::Arrival> sums;  // of the other blocks
  };

  sparse::BlockRun run_of(int owner, std::uint64_t g) const {
    return groups_.run(g * static_cast<std::uint64_t>(ranks_) + static_cast<std::uint64_t>(owner),
                       1);
  }
  sparse::PartShape contribution_shape(int owner, std::uint64_t g) const {
    return {run_of(owner, g), in_bytes_, call_.form};
  }
  sparse::PartShape sum_shape(int owner, std::uint64_t g) const {
    return {run_of(owner, g), out_bytes_};
  }
  std::uint64_t max_contribution(std::uint64_t g) const {
    return max_part_bytes(run_of(rank_, g), call_.max_entries, in_bytes_);
  }
  std::uint64_t max_sum(int owner, std::uint64_t g) const {
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    const std::uint64_t entries =
        call_.max_entries > UINT64_MAX / ranks ? UINT64_MAX : call_.max_entries * ranks;
    return max_part_bytes(run_of(owner, g), entries, out_bytes_);
  }

  const CommContext& comm_;
  const SparseSumCall& call_;
  PartMessages& messages_;
  Traffic& traffic_;
  int rank_;
  int ranks_;
  sparse::BlockRun whole_;
  std::size_t in_bytes_, out_bytes_;  // of a value
  BlockGroups groups_;
  sparse::PartSum sum_;
  OwnParts own_parts_;
  std::array<Slot, 3> slots_;
};

}  // namespace

double split_seconds(const LinkCost& link, const SumShape& shape) {
  const double p = shape.ranks, k = static_cast<double>(shape.max_entries), all = shape.union_of(p);
  const double groups = group_count(link, shape);
  const double travel = 2 * (p - 1) * groups * link.alpha_s +
                        (k + all) / p * shape.entry_bytes() * shape.byte_to_all_s(link);
  const double work =
      (k * shape.tree_depth() + all * kTakeOfSum) * link.entry_s + (k + all) * shape.coding_s();
  return 2 * link.round_s + together_seconds(link, groups, travel, work);
}

// Scratch of three groups: sent entries, received entries, sums.
double split_scratch_bytes(const LinkCost& link, const SumShape& shape) {
  const double k = static_cast<double>(shape.max_entries), all = shape.union_of(shape.ranks);
  return std::min(3.0, group_count(link, shape)) / group_count(link, shape) * (2 * k + 2 * all) *
         shape.entry_bytes();
}

Task sum_by_split(const CommContext& comm, const SparseSumCall& call, Traffic& traffic) {
  PartMessages messages(comm, call.number, traffic);
  SplitExchange exchange(comm, call, messages, traffic);
  const std::uint64_t groups = exchange.groups();
  Status alive;
  for (std::uint64_t g = 0; g < groups + 2; ++g) {
    if (g < groups) exchange.post(g);
    co_await comm.engine->yield();
    if (g >= 1 && g <= groups) {
      Task arrival = exchange.wait_contributions(g - 1);
      alive = co_await arrival;
      if (alive.ok()) alive = exchange.sum(g - 1);
      if (!alive.ok()) co_return alive;
    }
    if (g >= 2) {
      Task sums = exchange.take_sums(g - 2);
      alive = co_await sums;
      if (!alive.ok()) co_return alive;
    }
  }
  Task departure = messages.wait_sent();
  co_return co_await departure;
}

}  // namespace sparcl::collectives::sparse_sum
