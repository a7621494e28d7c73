// Sums in two levels, for nodes that share memory inside and are joined by slower links
// (BlueConnect, Cho et al., SysML 2019, for sparse vectors). There are N nodes of m ranks. In each
// group of blocks, rank i of every node owns share i, and rank i of node j owns piece j of it:
// - Inside a node, each rank gives its entries of share i to rank i, which sums them: a list for
//   the node.
// - Rank i gives piece j of the list to rank i of node j, which sums the nodes' lists.
// - Rank i of node j gives the sum to rank i of each node.
// - Rank i gives it to its node.
//
// Cost between nodes: 2 (N - 1) alpha a group, and (N - 1) / N (U(m) + K) / m w beta, with U(m) the
// union of a node. Cost inside a node: (m - 1) (N + 1) messages a group and (m - 1) / m (k + K) w
// bytes, at the cost of a node's memory. Sums cost (log2(m) k + log2(N) U(m) / m) gamma. They are
// combined in another order than the ranks', unless a node is a subtree of the tree over ranks.
#include <array>
#include <cstring>

#include "collectives/sparse_sum/block_groups.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

constexpr std::uint64_t kStages =
    5;  // of a group, each one turn later: entries, a node's sums, sums, received sums, the end

// Groups have m times as many entries as those of split: a node's entries are sent together, and a
// group takes more stages. They are 1.2 to 4.8 times as fast as split's groups (2 hosts of 2 and 4
// ranks, links of 100 Mbit/s, four pairs of runs on oversubscribed cores).
BlockGroups node_groups(const LinkCost& link, const sparse::BlockRun& whole,
                        std::uint64_t max_entries, int ranks, std::uint64_t node_ranks) {
  return block_groups(link, whole, max_entries / node_ranks, ranks);
}

class TwoLevelExchange {
 public:
  TwoLevelExchange(const CommContext& comm, const SparseSumCall& call, PartMessages& messages,
                   Traffic& traffic)
      : comm_(comm),
        call_(call),
        messages_(messages),
        traffic_(traffic),
        rank_(comm.engine->transport().rank()),
        nodes_(comm.node_map.nodes.size()),
        node_ranks_(comm.node_map.nodes.front().size()),
        groups_(node_groups(comm.link(), whole_run(comm, call), call.max_entries,
                            comm.engine->transport().size(), node_ranks_)),
        in_bytes_(part_value_bytes(*comm.kernels, call.kind.datatype, call.in)),
        node_bytes_(
            part_value_bytes(*comm.kernels, call.kind.datatype, sparse::PartValues::kAccumulators)),
        out_bytes_(part_value_bytes(*comm.kernels, call.kind.datatype, call.out)),
        node_sum_(comm.outgoing(), *comm.kernels, call.kind, node_ranks_, call.in,
                  sparse::PartValues::kAccumulators, 1),
        sum_(comm.outgoing(), *comm.kernels, call.kind, nodes_, sparse::PartValues::kAccumulators,
             call.out,
             call.kind.reduction.is_mean
                 ? static_cast<std::uint32_t>(comm.engine->transport().size())
                 : 1),
        own_parts_(comm, call, traffic) {
    for (std::size_t node = 0; node < nodes_; ++node) {
      for (std::size_t i = 0; i < node_ranks_; ++i) {
        if (rank_at(node, i) == rank_) node_ = node, own_ = i;
      }
    }
  }

  std::uint64_t groups() const { return groups_.count; }

  // Posts all receives of the group, then each share's entries to its owner in the node.
  void post(std::uint64_t g) {
    Slot& slot = slot_of(g);
    slot = Slot{};
    slot.entries.resize(node_ranks_);
    slot.node_sums.resize(nodes_);
    slot.sums.assign(node_ranks_, std::vector<PartMessages::Arrival>(nodes_));
    const sparse::PartShape entries{share(own_, g), in_bytes_, call_.form};
    for (std::size_t i = 0; i < node_ranks_; ++i) {
      if (i == own_) continue;
      const std::uint64_t max_bytes = max_part_bytes(entries.run, call_.max_entries, in_bytes_);
      slot.entries[i] = messages_.receive(rank_at(node_, i), kPartLane, entries, max_bytes);
      for (std::size_t j = 0; j < nodes_; ++j)
        slot.sums[i][j] = receive_sum(rank_at(node_, i), piece(i, j, g));
    }
    const sparse::PartShape own_piece{piece(own_, node_, g), node_bytes_};
    for (std::size_t j = 0; j < nodes_; ++j) {
      if (j == node_) continue;
      const std::uint64_t max_bytes =
          max_part_bytes(own_piece.run, max_of(node_ranks_), node_bytes_);
      slot.node_sums[j] = messages_.receive(rank_at(j, own_), kPartLane, own_piece, max_bytes);
      slot.sums[own_][j] = receive_sum(rank_at(j, own_), piece(own_, j, g));
    }
    for (std::size_t i = 0; i < node_ranks_; ++i) {
      const sparse::BlockRun run = share(i, g);
      const std::uint64_t before = own_parts_.taken();
      const Buffer part = own_parts_.take(run);
      if (i == own_) {
        slot.own = part;
      } else {
        messages_.send(rank_at(node_, i), kPartLane, part, {run, in_bytes_, call_.form, before});
      }
    }
  }

  // Sums the node's entries in the own share, and sends each piece to the rank that sums it over
  // all nodes.
  Task sum_node(std::uint64_t g) {
    Slot& slot = slot_of(g);
    Task arrival = wait(slot.entries, "entries to be summed");
    SPARCL_CO_RETURN_IF_ERROR(co_await arrival);
    std::vector<sparse::BlockRun> pieces;
    for (std::size_t j = 0; j < nodes_; ++j) pieces.push_back(piece(own_, j, g));
    const std::vector<std::span<const std::byte>> parts = parts_of(slot.entries, slot.own);
    const std::optional<std::vector<Buffer>> sums =
        node_sum_.sum_pieces(parts, share(own_, g), pieces);
    if (!sums) co_return refuse_part(comm_, rank_at(node_, node_sum_.refused()));
    slot.own = (*sums)[node_];
    for (std::size_t step = 1; step < nodes_; ++step) {
      const std::size_t j = (node_ + step) % nodes_;
      messages_.send(rank_at(j, own_), kPartLane, (*sums)[j], {pieces[j], node_bytes_});
    }
    slot.entries.clear();
    co_return Status();
  }

  // Sums all nodes' entries in the own piece.
  Task sum_nodes(std::uint64_t g) {
    Slot& slot = slot_of(g);
    Task arrival = wait(slot.node_sums, "a node's entries to be summed");
    SPARCL_CO_RETURN_IF_ERROR(co_await arrival);
    const sparse::BlockRun run = piece(own_, node_, g);
    const std::vector<std::span<const std::byte>> parts = parts_of(slot.node_sums, slot.own);
    std::optional<Buffer> sum = sum_.sum(parts, run);
    if (!sum) co_return refuse_part(comm_, rank_at(sum_.refused(), own_));
    slot.own = std::move(*sum);
    for (std::size_t step = 1; step < nodes_; ++step)
      messages_.send(rank_at((node_ + step) % nodes_, own_), kSumLane, slot.own, {run, out_bytes_});
    slot.node_sums.clear();
    co_return Status();
  }

  // Passes the own share on to the own node as it comes from all nodes.
  Task pass_on(std::uint64_t g) {
    Slot& slot = slot_of(g);
    std::vector<PartMessages::Arrival>& pieces = slot.sums[own_];
    Task arrival = wait(pieces, "a sum");
    SPARCL_CO_RETURN_IF_ERROR(co_await arrival);
    pieces[node_].part = std::move(slot.own);
    for (std::size_t j = 0; j < nodes_; ++j) {
      const sparse::BlockRun run = piece(own_, j, g);
      if (j != node_) {
        if (!sparse::PartView::read(*comm_.kernels, pieces[j].part.bytes(), run, out_bytes_))
          co_return refuse_part(comm_, pieces[j].peer);
        pieces[j].part = within_window(pieces[j].part);
      }
      for (std::size_t step = 1; step < node_ranks_; ++step)
        messages_.send(rank_at(node_, (own_ + step) % node_ranks_), kSumLane, pieces[j].part,
                       {run, out_bytes_});
    }
    co_return Status();
  }

  Task take_sums(std::uint64_t g) {
    Slot& slot = slot_of(g);
    for (std::size_t i = 0; i < node_ranks_; ++i) {
      if (i != own_) {
        Task arrival = wait(slot.sums[i], "a sum");
        SPARCL_CO_RETURN_IF_ERROR(co_await arrival);
      }
      for (std::size_t j = 0; j < nodes_; ++j) {
        const sparse::BlockRun run = piece(i, j, g);
        const Buffer& part = slot.sums[i][j].part;
        const std::optional<sparse::PartView> view =
            sparse::PartView::read(*comm_.kernels, part.bytes(), run, out_bytes_);
        if (!view) co_return refuse_part(comm_, rank_at(node_, i));
        hand_over(comm_, call_, part, *view, run, traffic_);
      }
    }
    co_return Status();
  }

 private:
  // peer -1: this rank's own.
  struct Slot {
    Buffer own;  // entries of the own share, then the node's and all nodes' sums of the own piece
    std::vector<PartMessages::Arrival> entries;            // of the own share, by rank of the node
    std::vector<PartMessages::Arrival> node_sums;          // of the own piece, by node
    std::vector<std::vector<PartMessages::Arrival>> sums;  // by share and piece
  };

  Slot& slot_of(std::uint64_t g) { return slots_[g % slots_.size()]; }
  int rank_at(std::size_t node, std::size_t i) const { return comm_.node_map.nodes[node][i]; }
  // A group is a sequence of shares, and a share a sequence of pieces.
  sparse::BlockRun share(std::size_t i, std::uint64_t g) const {
    return groups_.run((g * node_ranks_ + i) * nodes_, nodes_);
  }
  sparse::BlockRun piece(std::size_t i, std::size_t j, std::uint64_t g) const {
    return groups_.run((g * node_ranks_ + i) * nodes_ + j, 1);
  }
  std::uint64_t max_of(std::uint64_t ranks) const {
    return call_.max_entries > UINT64_MAX / ranks ? UINT64_MAX : call_.max_entries * ranks;
  }
  PartMessages::Arrival receive_sum(int peer, const sparse::BlockRun& run) {
    const sparse::PartShape shape{run, out_bytes_};
    return messages_.receive(peer, kSumLane, shape,
                             max_part_bytes(run, max_of(nodes_ * node_ranks_), out_bytes_));
  }

  Task wait(std::vector<PartMessages::Arrival>& arrivals, const char* purpose) {
    for (PartMessages::Arrival& arrival : arrivals) {
      if (arrival.peer < 0) continue;
      Task waiting = messages_.wait(arrival, purpose);
      const Status alive = co_await waiting;
      if (!alive.ok()) co_return alive;
    }
    co_return Status();
  }

  static std::vector<std::span<const std::byte>> parts_of(
      const std::vector<PartMessages::Arrival>& arrivals, const Buffer& own) {
    std::vector<std::span<const std::byte>> parts;
    for (const PartMessages::Arrival& each : arrivals)
      parts.push_back(each.peer < 0 ? own.bytes() : each.part.bytes());
    return parts;
  }

  // A part from the network is copied once for all readers in this node.
  Buffer within_window(const Buffer& part) const {
    if (comm_.window == nullptr || part.size() < comm::kMinLentBytes) return part;
    const Buffer copy = comm_.outgoing().take(part.size());
    std::memcpy(copy.data(), part.data(), part.size());
    return copy;
  }

  const CommContext& comm_;
  const SparseSumCall& call_;
  PartMessages& messages_;
  Traffic& traffic_;
  int rank_;
  std::size_t nodes_, node_ranks_;
  std::size_t node_ = 0, own_ = 0;  // this rank's node, and its index there
  BlockGroups groups_;
  std::size_t in_bytes_, node_bytes_, out_bytes_;  // of a value
  sparse::PartSum node_sum_, sum_;
  OwnParts own_parts_;
  std::array<Slot, kStages> slots_;
};

double node_group_count(const LinkCost& link, const SumShape& shape) {
  SumShape of_nodes = shape;
  of_nodes.max_entries /= static_cast<std::uint64_t>(shape.ranks_per_node);
  return group_count(link, of_nodes);
}

double tree_depth(double lists) { return lists > 2 ? std::ceil(std::log2(lists)) : 1; }

}  // namespace

bool two_level_is_possible(const SumShape& shape, Determinism determinism) {
  return shape.ranks_per_node > 1 && shape.ranks_per_node < shape.ranks &&
         (determinism != Determinism::kCanonical || shape.nodes_are_subtrees);
}

double two_level_seconds(const LinkCost& link, const SumShape& shape) {
  const double m = shape.ranks_per_node, nodes = shape.ranks / m,
               k = static_cast<double>(shape.max_entries);
  const double node_union = shape.union_of(m), all = shape.union_of(shape.ranks);
  const double between =
      (nodes - 1) / nodes * (node_union * shape.node_sum_bytes() + all * shape.entry_bytes()) / m;
  const double inside = (m - 1) / m * (k + all) * shape.entry_bytes();
  const double entries = k * tree_depth(m) + node_union / m * tree_depth(nodes) + all * kTakeOfSum;
  const double groups = node_group_count(link, shape);
  const double travel = groups * 2 * (nodes - 1) * link.alpha_s + between * link.beta_s_per_byte;
  const double work = groups * (m - 1) * (nodes + 1) * kNodeLink.alpha_s +
                      inside * kNodeLink.beta_s_per_byte + entries * link.entry_s +
                      (node_union + all) / m * shape.coding_s();
  return 2 * (link.round_s + kNodeLink.round_s) + together_seconds(link, groups, travel, work);
}

// Scratch of five groups: sent entries, received entries, sums, and entries that are passed on.
double two_level_scratch_bytes(const LinkCost& link, const SumShape& shape) {
  const double groups = node_group_count(link, shape), stages = static_cast<double>(kStages);
  const double m = shape.ranks_per_node, k = static_cast<double>(shape.max_entries),
               all = shape.union_of(shape.ranks);
  return std::min(stages, groups) / groups *
         ((2 * k + all + all / m) * shape.entry_bytes() +
          2 * shape.union_of(m) / m * shape.node_sum_bytes());
}

Task sum_by_two_levels(const CommContext& comm, const SparseSumCall& call, Traffic& traffic) {
  PartMessages messages(comm, call.number, traffic);
  TwoLevelExchange exchange(comm, call, messages, traffic);
  using Stage = Task (TwoLevelExchange::*)(std::uint64_t);
  constexpr std::array<Stage, kStages - 1> kAfterPost{
      &TwoLevelExchange::sum_node, &TwoLevelExchange::sum_nodes, &TwoLevelExchange::pass_on,
      &TwoLevelExchange::take_sums};
  const std::uint64_t groups = exchange.groups();
  for (std::uint64_t turn = 0; turn < groups + kAfterPost.size(); ++turn) {
    if (turn < groups) exchange.post(turn);
    co_await comm.engine->yield();
    for (std::uint64_t late = 1; late <= kAfterPost.size(); ++late) {
      if (turn < late || turn - late >= groups) continue;
      Task stage = (exchange.*kAfterPost[late - 1])(turn - late);
      const Status alive = co_await stage;
      if (!alive.ok()) co_return alive;
    }
  }
  Task departure = messages.wait_sent();
  co_return co_await departure;
}

}  // namespace sparcl::collectives::sparse_sum
