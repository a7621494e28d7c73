// Sharded parameter server (Li et al., Scaling Distributed Machine Learning with the Parameter
// Server, OSDI 2014). Each rank sends its entries to the ranks that aggregate them. These send the
// results to all. Cost: 2 (P - 1) alpha, (k + R) w (P - 1) / S beta at a shard's rank.
//
// With leaders, N nodes of m ranks: a rank of each node sums the node's entries of a shard, sends
// the sums on, and gives the shard's result to its node. Cost between nodes: 2 (N - 1) alpha, and
// (U(m) + R) w (N - 1) / S beta at a shard's rank, with U(m) the union of a node. Groups of nodes
// have leaders in the same way, on any number of levels. Sums are of whole subtrees of the tree
// over ranks, so that all ways give the same bits. Where ranks of several groups take turns, a
// leader sends one message for each of its subtrees, up to m.
#include "collectives/aggregate/shard_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "collectives/sparse_sum/sparse_sum.hpp"
#include "src/aggregate/sum/weigh_part.hpp"

namespace sparcl::collectives::aggregate {

namespace {

constexpr std::size_t kReceivesAtOnce = 16;  // of sums; each takes 256 KiB. Heuristic
constexpr double kCachedBytes =
    12 << 20;  // of all ranks of a core: larger outputs are in no cache anyway. Heuristic

}  // namespace

using sparcl::aggregate::MeanKind;
using sparcl::aggregate::SlotTree;

void ShardExchange::post(const sparse::SortedEntries& entries, DataType sent,
                         std::uint64_t max_entries) {
  sent_ = sent;
  const std::size_t width = element_bytes(sent), group = plan_.group_of(0, rank_);
  leads_.clear();
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    if (plan_.owner(shard) == rank_) own_shard_ = shard;
    if (!leads(0, shard)) continue;
    Lead& lead = leads_.emplace_back();
    lead.shard = shard;
    const sparse::BlockRun run = plan_.run(shard);
    for (const int peer : plan_.ranks_of(0, group)) {
      if (peer == rank_) continue;
      lead.parts.push_back(messages_.receive(peer, kUpLane, {run, width},
                                             sparse::max_part_bytes(run, max_entries, width)));
    }
  }
  std::span<const std::uint64_t> rest = entries.indices();
  const std::byte* values = entries.values();
  auto lead = leads_.begin();
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    const sparcl::aggregate::ShardRange range = plan_.range(shard);
    const std::size_t own = sparse::count_below(rest, range.first + range.count);
    const sparse::BlockRun run = plan_.run(shard);
    const Buffer part =
        sparse::write_part(comm_.outgoing(), *comm_.kernels, run, rest.first(own), values, width);
    rest = rest.subspan(own);
    values += own * width;
    if (const int leader = plan_.leader(0, group, shard); leader != rank_) {
      messages_.send(leader, kUpLane, part, {run, width});
    } else {
      (lead++)->own_part = part;
    }
  }
}

Task ShardExchange::tell_all(std::span<const std::byte> own, std::vector<std::byte>& all) {
  all.resize(own.size() * static_cast<std::size_t>(ranks_));
  const auto place = [&](int rank) {
    return all.data() + static_cast<std::size_t>(rank) * own.size();
  };
  std::memcpy(place(rank_), own.data(), own.size());
  const Buffer message = Buffer::allocate(own.size());
  std::memcpy(message.data(), own.data(), own.size());
  std::vector<transport::OperationRef> sent, heard;
  for (int step = 1; step < ranks_; ++step) {
    heard.push_back(comm_.engine->receive((rank_ + ranks_ - step) % ranks_, {number_, kFactsLane},
                                          Buffer::allocate(own.size())));
    sent.push_back(comm_.engine->send((rank_ + step) % ranks_, {number_, kFactsLane}, message));
  }
  for (const transport::OperationRef& each : heard) {
    const Status alive = co_await comm_.engine->wait(each, "facts of a contribution");
    if (!alive.ok()) co_return alive;
    if (each->bytes != own.size()) co_return sparse_sum::refuse_part(comm_, each->peer);
    std::memcpy(place(each->peer), each->buffer.data(), own.size());
  }
  for (const transport::OperationRef& each : sent) {
    const Status alive = co_await comm_.engine->wait(each, "facts of a contribution");
    if (!alive.ok()) co_return alive;
  }
  co_return Status();
}

void ShardExchange::expect_results() {
  downs_.assign(plan_.shards(), {});
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    if (shard == own_shard_) continue;
    const Source from = source(shard);
    const sparse::PartShape shape = down_shape(shard);
    downs_[shard] = messages_.receive(
        from.rank, from.lane, shape,
        sparse::max_part_bytes(shape.run, plan_.range(shard).count, shape.value_bytes));
  }
}

ShardExchange::Source ShardExchange::source(std::uint64_t shard) const {
  std::size_t level = 0;
  while (leads(level, shard)) ++level;  // the owner leads all, and has no source
  const int leader = plan_.leader_of(level, rank_, shard);
  return {leader, leader == plan_.owner(shard) ? kDownLane : kForwardLane};
}

Task ShardExchange::sum(const AgreedRound& round, Sums& sums) {
  // Level by level, and shard by shard: leaders send in the order in which their peers receive.
  for (std::size_t level = 0; level <= plan_.top(); ++level) {
    for (Lead& lead : leads_) {
      if (lead.is_sent) continue;
      Task summing = level == 0 ? sum_ranks(lead, round) : take_groups(lead, level, round);
      const Status alive = co_await summing;
      if (!alive.ok()) co_return alive;
      if (level < plan_.top() && !leads(level + 1, lead.shard)) send_up(lead, level, round);
    }
  }
  for (Lead& lead : leads_) {
    if (lead.is_sent) continue;  // all but the own shard's
    sums.values = lead.values->finish();
    if (sums_weights()) sums.weights = lead.weights->finish();
  }
  co_return Status();
}

// What the ranks of the own group of level 0 contribute to the shard. Those that do not count have
// sent it, too.
Task ShardExchange::sum_ranks(Lead& lead, const AgreedRound& round) {
  const sparse::BlockRun run = plan_.run(lead.shard);
  lead.values.emplace(*comm_.buffers, *comm_.kernels, run, waiting_);
  if (sums_weights()) lead.weights.emplace(*comm_.buffers, *comm_.kernels, run, waiting_);
  auto next = lead.parts.begin();
  for (const int rank : plan_.ranks_of(0, plan_.group_of(0, rank_))) {
    const auto arrival = rank == rank_ ? lead.parts.end() : next++;
    Buffer part = rank == rank_ ? std::move(lead.own_part) : Buffer();
    if (rank != rank_) {
      Task waiting = messages_.wait(*arrival, "entries to be aggregated");
      const Status alive = co_await waiting;
      if (!alive.ok()) co_return alive;
      part = std::move(arrival->part);
    }
    if (!round.counts(rank)) continue;
    const Status added = add(lead, rank, part, round);
    if (!added.ok()) co_return sparse_sum::refuse_part(comm_, rank);
  }
  co_return Status();
}

Status ShardExchange::add(Lead& lead, int rank, const Buffer& part, const AgreedRound& round) {
  const auto at = static_cast<std::size_t>(rank);
  const auto slot = static_cast<std::uint32_t>(rank);
  const auto weight = static_cast<float>(round.facts[at].weight);
  const float clip = round.screening.clip[at];
  const std::optional<sparse::PartView> view = sparse::PartView::read(
      *comm_.kernels, part.bytes(), plan_.run(lead.shard), element_bytes(sent_));
  if (!view || view->entries() > plan_.range(lead.shard).count)
    return Status(Code::kCorrupt, "no part");
  const bool is_ready =
      sent_ == DataType::kFloat32 && weight == 1 && clip == 1 && round.facts[at].not_finite == 0;
  SPARCL_RETURN_IF_ERROR(lead.values->add(
      {slot, 0}, is_ready ? part
                          : sparcl::aggregate::weigh_part(*comm_.buffers, *comm_.kernels,
                                                          part.bytes(), sent_, clip, weight)));
  if (!sums_weights()) return {};
  return lead.weights->add(
      {slot, 0}, sparcl::aggregate::weights_part(*comm_.buffers, part.bytes(), sent_, weight));
}

// The group's sums go to the leader above: as many as take_groups() there awaits.
void ShardExchange::send_up(Lead& lead, std::size_t level, const AgreedRound& round) {
  const sparse::PartShape shape{plan_.run(lead.shard), sizeof(float)};
  const int above = plan_.leader_of(level + 1, rank_, lead.shard);
  const auto send = [&](sparcl::aggregate::SlotTree& tree,
                        const sparcl::aggregate::Subtree& subtree) {
    for (const auto& node : tree.take({subtree.first, subtree.end()}))
      messages_.send(above, kGroupLane, node.part, shape);
  };
  plan_.visit_sums(
      level, plan_.group_of(level, rank_), [&](int rank) { return round.counts(rank); },
      [&](const sparcl::aggregate::Subtree& subtree) {
        send(*lead.values, subtree);
        if (sums_weights()) send(*lead.weights, subtree);
      });
  lead.values.reset();  // a rank may lead many shards
  lead.weights.reset();
  lead.parts.clear();
  lead.is_sent = true;
}

// The sums of the other groups of the level below, in the order in which their leaders send them.
std::vector<ShardExchange::GroupSum> ShardExchange::expect_groups(const Lead& lead,
                                                                  std::size_t level,
                                                                  const AgreedRound& round) const {
  std::vector<GroupSum> expected;
  for (const std::size_t child : plan_.children_of(level, plan_.group_of(level, rank_))) {
    if (child == plan_.group_of(level - 1, rank_)) continue;
    const int from = plan_.leader(level - 1, child, lead.shard);
    plan_.visit_sums(
        level - 1, child, [&](int rank) { return round.counts(rank); },
        [&](const sparcl::aggregate::Subtree& subtree) {
          for (const bool is_of_weights : {false, true}) {
            if (is_of_weights && !sums_weights()) continue;
            expected.push_back({subtree, is_of_weights, from, {}});
          }
        });
  }
  return expected;
}

Task ShardExchange::take_groups(Lead& lead, std::size_t level, const AgreedRound& round) {
  const sparse::PartShape shape{plan_.run(lead.shard), sizeof(float)};
  const std::uint64_t max_bytes =
      sparse::max_part_bytes(shape.run, plan_.range(lead.shard).count, shape.value_bytes);
  std::vector<GroupSum> expected = expect_groups(lead, level, round);
  std::size_t posted = 0;
  for (std::size_t at = 0; at < expected.size(); ++at) {
    for (; posted < std::min(at + kReceivesAtOnce, expected.size()); ++posted)
      expected[posted].arrival =
          messages_.receive(expected[posted].from, kGroupLane, shape, max_bytes);
    GroupSum& each = expected[at];
    Task waiting = messages_.wait(each.arrival, "a group's entries to be aggregated");
    const Status alive = co_await waiting;
    if (!alive.ok()) co_return alive;
    sparcl::aggregate::SlotTree& into = each.is_of_weights ? *lead.weights : *lead.values;
    const Status added = into.add(each.subtree, each.arrival.part);
    if (!added.ok()) co_return sparse_sum::refuse_part(comm_, each.from);
    each.arrival = {};
  }
  co_return Status();
}

Buffer ShardExchange::pack(const sparcl::aggregate::ShardResult& own) {
  const sparse::PartShape shape = down_shape(own_shard_);
  std::vector<std::byte> sent(own.values.size() * shape.value_bytes);
  const auto* const exact = reinterpret_cast<const std::byte*>(own.values.data());
  sparse::round_to_wire(*comm_.kernels, wire(), exact, own.values.size(), sent.data());
  return sparse::write_part(comm_.outgoing(), *comm_.kernels, shape.run, own.indices, sent.data(),
                            shape.value_bytes);
}

Task ShardExchange::spread(const Buffer& own) {
  results_.resize(plan_.shards());
  if (own_shard_ != UINT64_MAX) {
    give_down(own_shard_, kDownLane, own);
    const Status taken = take(own_shard_, own, rank_);
    if (!taken.ok()) co_return taken;
  }
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    if (shard == own_shard_) continue;
    Task waiting = messages_.wait(downs_[shard], "a result");
    const Status alive = co_await waiting;
    if (!alive.ok()) co_return alive;
    const Status taken = take(shard, downs_[shard].part, source(shard).rank);
    if (!taken.ok()) co_return taken;
    give_down(shard, kForwardLane, downs_[shard].part);
  }
  co_return Status();
}

// To the groups that this rank leads: the leaders of other groups first, then the ranks of level 0,
// those above this one before others.
void ShardExchange::give_down(std::uint64_t shard, std::uint8_t lane, const Buffer& part) {
  for (std::size_t level = plan_.top(); level > 0; --level) {
    if (!leads(level, shard)) continue;
    for (const std::size_t child : plan_.children_of(level, plan_.group_of(level, rank_))) {
      if (child != plan_.group_of(level - 1, rank_))
        messages_.send(plan_.leader(level - 1, child, shard), lane, part, down_shape(shard));
    }
  }
  if (!leads(0, shard)) return;
  const std::vector<int>& ranks = plan_.ranks_of(0, plan_.group_of(0, rank_));
  const auto own = static_cast<std::size_t>(std::ranges::find(ranks, rank_) - ranks.begin());
  for (std::size_t step = 1; step < ranks.size(); ++step)
    messages_.send(ranks[(own + step) % ranks.size()], lane, part, down_shape(shard));
}

Status ShardExchange::take(std::uint64_t shard, const Buffer& part, int from) {
  const sparse::PartShape shape = down_shape(shard);
  const std::optional<sparse::PartView> view =
      sparse::PartView::read(*comm_.kernels, part.bytes(), shape.run, shape.value_bytes);
  if (!view) return sparse_sum::refuse_part(comm_, from);
  results_[shard] = {part, *view};
  return {};
}

std::uint64_t ShardExchange::entries() const {
  std::uint64_t all = 0;
  for (const Result& each : results_) all += each.view.entries();
  return all;
}

bool ShardExchange::write(std::uint64_t* indices, std::byte* values) const {
  const double written = static_cast<double>(entries()) *
                         static_cast<double>(sizeof *indices + element_bytes(call_.datatype)) *
                         comm_.oversubscription;
  const auto output =
      written > kCachedBytes ? kernels::Output::kStreamed : kernels::Output::kCached;
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    if (!write_indices(shard, output, indices)) return false;
    write_values(results_[shard].view, output, values);
    const std::size_t own = results_[shard].view.entries();
    indices += own;
    values += own * element_bytes(call_.datatype);
  }
  return true;
}

bool ShardExchange::write_indices(std::uint64_t shard, kernels::Output output,
                                  std::uint64_t* indices) const {
  const sparse::BlockRun run = plan_.run(shard);
  const sparcl::aggregate::ShardRange range = plan_.range(shard);
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  for (sparse::PartView view = results_[shard].view; !view.at_end(); view.next()) {
    const std::size_t count = view.block_entries();
    const std::uint16_t* const positions = view.positions(*comm_.kernels, scratch.data());
    const std::uint64_t base = run.base_of(view.block()), room = range.first + range.count - base;
    if (room < run.block_elements() &&
        !std::all_of(positions, positions + count, [&](std::uint16_t p) { return p < room; }))
      return false;
    comm_.kernels->entries.raise_positions(positions, count, base, output, indices);
    indices += count;
  }
  return true;
}

void ShardExchange::write_values(const sparse::PartView& view, kernels::Output output,
                                 std::byte* values) const {
  const sparse::WireType sent = wire();
  if (sent.sent == call_.datatype)
    return comm_.kernels->entries.copy_bytes(
        view.values(), view.entries() * element_bytes(call_.datatype), output, values);
  std::vector<std::byte> exact(view.entries() * sizeof(float));
  sparse::widen_from_wire(*comm_.kernels, sent, view.values(), view.entries(), exact.data());
  sparse::round_to_wire(*comm_.kernels, {DataType::kFloat32, call_.datatype}, exact.data(),
                        view.entries(), values);
}

sparse::WireType ShardExchange::wire() const {
  return sparse::wire_type(DataType::kFloat32, call_.aggregator->options().wire);
}

sparse::PartShape ShardExchange::down_shape(std::uint64_t shard) const {
  const sparse::WireType sent = wire();
  return {plan_.run(shard), element_bytes(sent.sent), sent.form};
}

}  // namespace sparcl::collectives::aggregate
