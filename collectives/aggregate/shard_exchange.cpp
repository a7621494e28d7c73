// Sharded parameter server (Li et al., Scaling Distributed Machine Learning with the Parameter
// Server, OSDI 2014). Each rank sends its entries to the ranks that aggregate them. These send the
// results to all. Cost: 2 (P - 1) alpha, (k + R) w (P - 1) / S beta at a shard's rank.
#include "collectives/aggregate/shard_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "collectives/sparse_sum/sparse_sum.hpp"
#include "src/aggregate/sum/weigh_part.hpp"

namespace sparcl::collectives::aggregate {

namespace {

constexpr double kCachedBytes =
    12 << 20;  // of all ranks of a core: larger outputs are in no cache anyway. Heuristic

}  // namespace

using sparcl::aggregate::MeanKind;
using sparcl::aggregate::SlotTree;

void ShardExchange::post(const sparse::SortedEntries& entries, DataType sent,
                         std::uint64_t max_entries) {
  sent_ = sent;
  const std::size_t width = element_bytes(sent);
  ups_.assign(static_cast<std::size_t>(ranks_), {});
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    if (plan_.owner(shard) == rank_) own_shard_ = shard;
  }
  for (int step = 1; step < ranks_ && own_shard_ != UINT64_MAX; ++step) {
    const int peer = (rank_ + ranks_ - step) % ranks_;
    const sparse::BlockRun run = plan_.run(own_shard_);
    ups_[static_cast<std::size_t>(peer)] = messages_.receive(
        peer, kUpLane, {run, width}, sparse::max_part_bytes(run, max_entries, width));
  }
  std::span<const std::uint64_t> rest = entries.indices();
  const std::byte* values = entries.values();
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    const sparcl::aggregate::ShardRange range = plan_.range(shard);
    const std::size_t own = sparse::count_below(rest, range.first + range.count);
    const sparse::BlockRun run = plan_.run(shard);
    const Buffer part =
        sparse::write_part(comm_.outgoing(), *comm_.kernels, run, rest.first(own), values, width);
    rest = rest.subspan(own);
    values += own * width;
    if (shard == own_shard_) {
      own_part_ = part;
    } else {
      messages_.send(plan_.owner(shard), kUpLane, part, {run, width});
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
    const sparse::PartShape shape = down_shape(shard);
    downs_[shard] = messages_.receive(
        plan_.owner(shard), kDownLane, shape,
        sparse::max_part_bytes(shape.run, plan_.range(shard).count, shape.value_bytes));
  }
}

Task ShardExchange::sum(const AgreedRound& round, Sums& sums) {
  if (own_shard_ == UINT64_MAX) co_return Status();
  const sparse::BlockRun run = plan_.run(own_shard_);
  SlotTree values(*comm_.buffers, *comm_.kernels, run),
      weights(*comm_.buffers, *comm_.kernels, run);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!round.counts(rank)) continue;
    sparse_sum::PartMessages::Arrival& arrival = ups_[static_cast<std::size_t>(rank)];
    if (rank != rank_) {
      Task waiting = messages_.wait(arrival, "entries to be aggregated");
      const Status alive = co_await waiting;
      if (!alive.ok()) co_return alive;
    }
    const Status added =
        add(values, weights, rank, rank == rank_ ? own_part_ : arrival.part, round);
    if (!added.ok()) co_return sparse_sum::refuse_part(comm_, rank);
    arrival.part = {};
  }
  sums.values = values.finish();
  sums.weights = weights.finish();
  co_return Status();
}

Status ShardExchange::add(SlotTree& values, SlotTree& weights, int rank, const Buffer& part,
                          const AgreedRound& round) {
  const auto at = static_cast<std::size_t>(rank);
  const auto slot = static_cast<std::uint32_t>(rank);
  const auto weight = static_cast<float>(round.facts[at].weight);
  const float clip = round.screening.clip[at];
  if (!sparse::PartView::read(*comm_.kernels, part.bytes(), plan_.run(own_shard_),
                              element_bytes(sent_)))
    return Status(Code::kCorrupt, "no part");
  const bool is_ready =
      sent_ == DataType::kFloat32 && weight == 1 && clip == 1 && round.facts[at].not_finite == 0;
  SPARCL_RETURN_IF_ERROR(values.add(
      {slot, 0}, is_ready ? part
                          : sparcl::aggregate::weigh_part(*comm_.buffers, *comm_.kernels,
                                                          part.bytes(), sent_, clip, weight)));
  if (call_.aggregator->options().mean != MeanKind::kOverContributors) return {};
  return weights.add({slot, 0},
                     sparcl::aggregate::weights_part(*comm_.buffers, part.bytes(), sent_, weight));
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
    const sparse::PartShape shape = down_shape(own_shard_);
    for (int step = 1; step < ranks_; ++step)
      messages_.send((rank_ + step) % ranks_, kDownLane, own, shape);
    const Status taken = take(own_shard_, own);
    if (!taken.ok()) co_return taken;
  }
  for (std::uint64_t shard = 0; shard < plan_.shards(); ++shard) {
    if (shard == own_shard_) continue;
    Task waiting = messages_.wait(downs_[shard], "a result");
    const Status alive = co_await waiting;
    if (!alive.ok()) co_return alive;
    const Status taken = take(shard, downs_[shard].part);
    if (!taken.ok()) co_return taken;
  }
  co_return Status();
}

Status ShardExchange::take(std::uint64_t shard, const Buffer& part) {
  const sparse::PartShape shape = down_shape(shard);
  const std::optional<sparse::PartView> view =
      sparse::PartView::read(*comm_.kernels, part.bytes(), shape.run, shape.value_bytes);
  if (!view) return sparse_sum::refuse_part(comm_, plan_.owner(shard));
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
