#include "collectives/aggregate/aggregation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "collectives/aggregate/shard_exchange.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "src/base/checksum.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/stage_range.hpp"
#include "src/comm/start/small_gather.hpp"

namespace sparcl::collectives::aggregate {
namespace {

using sparcl::aggregate::Aggregator;
using sparcl::aggregate::AggregatorOptions;

constexpr const char* kCallName = "sparclAggregate: ";
constexpr sparse::SumKind kSum{DataType::kFloat32, {}, Determinism::kCanonical};

// The sum of the squares and the number of values that are not finite, of values of `type`.
sparcl::aggregate::ContributionFacts facts_of_entries(const kernels::KernelSet& kernels,
                                                      const sparse::SortedEntries& entries,
                                                      DataType type) {
  if (type == DataType::kFloat32 &&
      reinterpret_cast<std::uintptr_t>(entries.values()) % alignof(float) == 0)
    return sparcl::aggregate::facts_of(
        {reinterpret_cast<const float*>(entries.values()), entries.indices().size()});
  std::vector<float> values(entries.indices().size());
  sparse::widen_from_wire(kernels, {DataType::kFloat32, type}, entries.values(), values.size(),
                          reinterpret_cast<std::byte*>(values.data()));
  return sparcl::aggregate::facts_of(values);
}

struct RouteRow {
  const char* name;
  bool has_leaders;
};
constexpr std::array kRoutes{RouteRow{"shards", false}, RouteRow{"leaders", true}};

std::vector<std::string_view> route_names() { return comm::row_names(kRoutes); }
std::string_view route_name(std::uint8_t route) { return comm::forced_name(kRoutes, route); }
const comm::AlgorithmChoice& choice(std::uint8_t) { return kAggregateAlgorithms; }

// Only a hash of them is known.
comm::CallDifference detail(const comm::CallPair&) {
  return {"aggregators (options or rounds) or ranks that aggregate", {}, {}};
}

// The groups of ranks that have leaders; none: each rank sends to the shards' ranks itself.
comm::PlaceTree leaders_of(const CommContext& comm) {
  const std::uint8_t forced = comm::forced_row(kRoutes, comm.aggregate_algorithm);
  const bool may_lead = forced == 0 || kRoutes[forced - 1U].has_leaders;
  return may_lead ? comm.places : comm::PlaceTree();
}

class Aggregation final : public CallBody {
 public:
  Aggregation(const CommContext& comm, std::uint32_t number, AggregateCall& call,
              CallReport& report)
      : comm_(comm),
        number_(number),
        call_(call),
        report_(report),
        rank_(comm.engine->transport().rank()),
        ranks_(comm.engine->transport().size()),
        plan_(call.count, call.ranks, leaders_of(comm), ranks_),
        exchange_(comm, number, call, plan_, report.traffic) {}

  CallTerms terms() override {
    if (call_.refusal.ok()) call_.refusal = prepare().with_prefix(kCallName);
    CallTerms terms;
    terms.fingerprint.operation = static_cast<std::uint32_t>(CallKind::kAggregate);
    terms.fingerprint.datatype = static_cast<std::uint32_t>(call_.datatype);
    terms.fingerprint.count = call_.count;
    terms.fingerprint.algorithm = comm::forced_row(kRoutes, comm_.aggregate_algorithm);
    terms.refusal = call_.refusal;
    if (call_.refusal.ok()) {
      terms.fingerprint.detail =
          xxh3_64(std::as_bytes(std::span(call_.ranks)), call_.aggregator->fingerprint());
      terms.extents = {entries_.indices().size(), call_.out_capacity, comm_.max_scratch_mib,
                       entries_.has_duplicates(), kWholeUnion};
    }
    return terms;
  }

  Task run(const Extents& extents) override {
    const StageRange range("exchange");
    if (call_.count == 0) {  // there is nothing to shard
      note_result(extents, 0);
      co_return Status();
    }
    sent_ = extents.has_duplicates != 0 ? DataType::kFloat32 : call_.datatype;
    if (extents.has_duplicates != 0 && !entries_.has_duplicates())
      entries_.widen(call_.datatype, *comm_.kernels);
    exchange_.post(entries_, sent_, extents.max_entries);
    SPARCL_FAILPOINT("aggregate.sent");
    Task meeting = exchange_facts();
    Status verdict = co_await meeting;
    if (!verdict.ok()) co_return verdict;
    const Status judged = decide();
    if (judged.ok()) exchange_.expect_results();
    ShardExchange::Sums sums;
    Task summing = exchange_.sum(round_, sums);
    verdict = co_await summing;
    if (!verdict.ok()) co_return verdict;
    if (!judged.ok()) {  // what was sent has arrived everywhere
      Task end = exchange_.wait_sent();
      verdict = co_await end;
      co_return verdict.ok() ? judged : verdict;
    }

    Buffer own;
    Task stepping = step(sums, own);
    verdict = co_await stepping;
    if (!verdict.ok()) co_return verdict;
    SPARCL_FAILPOINT("aggregate.stepped");
    Task spreading = exchange_.spread(own);
    verdict = co_await spreading;
    if (!verdict.ok()) co_return verdict;
    Task departure = exchange_.wait_sent();
    verdict = co_await departure;
    if (!verdict.ok()) co_return verdict;
    co_return finish(extents);
  }

  std::uint8_t lanes() const override { return kForwardLane + 2; }

 private:
  // Everything that this rank can find wrong by itself.
  Status prepare() {
    Aggregator& aggregator = *call_.aggregator;
    if (aggregator.count() != call_.count)
      return Status(Code::kInvalidArgument,
                    fmt::format("count is {}, but the aggregator is of {} elements", call_.count,
                                aggregator.count()));
    const AggregatorOptions& options = aggregator.options();
    const std::uint64_t most = options.keep > 0 ? std::min(options.keep, call_.count) : call_.count;
    if (options.has_state() && call_.out_capacity < most)
      return Status(Code::kInvalidArgument,
                    fmt::format("out_capacity is {}, but a result of this aggregator may have {} "
                                "elements",
                                call_.out_capacity, most));
    const sparse::SumKind kind{call_.datatype, kSum.reduction, kSum.determinism};
    SPARCL_RETURN_IF_ERROR(
        entries_.take(call_.indices, call_.values, call_.count, kind, *comm_.kernels));
    const sparcl::aggregate::ShardRange range = plan_.range_of_rank(rank_);
    return aggregator.take_range(range.first, range.count, *comm_.kernels);
  }

  // Each rank learns the weights and norms of all. Few ranks tell each other directly: their
  // messages travel beside the parts.
  Task exchange_facts() {
    constexpr int kFewRanks = 32;  // heuristic
    const sparcl::aggregate::ContributionFacts facts =
        facts_of_entries(*comm_.kernels, entries_, sent_);
    const RankFacts own{call_.weight, facts.squares, facts.not_finite, entries_.indices().size()};
    std::vector<std::byte> gathered;
    const auto bytes = std::as_bytes(std::span(&own, 1));
    Task gather = ranks_ <= kFewRanks
                      ? exchange_.tell_all(bytes, gathered)
                      : comm::small_gather(*comm_.engine, {number_, kFactsLane}, bytes, gathered);
    const Status alive = co_await gather;
    if (!alive.ok()) co_return alive;
    round_.facts.resize(static_cast<std::size_t>(ranks_));
    std::memcpy(round_.facts.data(), gathered.data(), gathered.size());
    co_return Status();
  }

  // The same on all ranks: an error ends the round without a result.
  Status decide() {
    std::vector<sparcl::aggregate::ContributionFacts> all;
    for (const RankFacts& each : round_.facts) all.push_back({each.squares, each.not_finite});
    const AggregatorOptions& options = call_.aggregator->options();
    round_.screening = sparcl::aggregate::screen(options.screen, all);
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!round_.counts(rank)) continue;
      ++round_.listed;
      round_.total_weight +=
          static_cast<float>(round_.facts[static_cast<std::size_t>(rank)].weight);
    }
    return judge(options);
  }

  Status judge(const AggregatorOptions& options) const {
    for (int rank = 0; rank < ranks_ && round_.screening.is_failed; ++rank) {
      const RankFacts& each = round_.facts[static_cast<std::size_t>(rank)];
      if (each.not_finite > 0)
        return Status(Code::kInvalidArgument,
                      fmt::format("{}{} of the {} values of rank {} ({}) are NaN or infinite: the "
                                  "aggregator's non_finite can refuse or zero them",
                                  kCallName, each.not_finite, each.entries, rank,
                                  comm_.engine->transport().describe_peer(rank)));
    }
    if (options.mean == sparcl::aggregate::MeanKind::kByWeight && !(round_.total_weight > 0))
      return Status(Code::kInvalidArgument,
                    fmt::format("{}the weights of all contributions that count are 0: a mean by "
                                "weight needs some data",
                                kCallName));
    return {};
  }

  // This rank's shard: from the sum to its result, if it has a shard.
  Task step(const ShardExchange::Sums& sums, Buffer& own) {
    const AggregatorOptions& options = call_.aggregator->options();
    sparcl::aggregate::Shard* const shard = call_.aggregator->shard();
    const sparcl::aggregate::ShardInput input{sums.values.bytes(), sums.weights.bytes(),
                                              round_.total_weight,
                                              static_cast<std::uint32_t>(ranks_)};
    if (!options.has_state()) {
      if (shard == nullptr) co_return Status();
      Result<Buffer> result = shard->result_part(comm_.outgoing(), input);
      if (!result.ok()) co_return end_comm(result.status());
      own = std::move(*result);
      co_return Status();
    }
    std::vector<std::uint32_t> keys;
    if (shard != nullptr) {
      const Status proposed = shard->propose(input, options.keep);
      if (!proposed.ok()) co_return end_comm(proposed);
      if (options.keep > 0) keys = shard->keys();
    }
    Threshold threshold;
    if (options.keep > 0 && plan_.shards() > 1) {
      Task finding = find_threshold(comm_, number_, keys, options.keep, threshold);
      const Status alive = co_await finding;
      if (!alive.ok()) co_return alive;
    }
    if (shard != nullptr) own = exchange_.pack(shard->keep(threshold.least, threshold.ties));
    co_return Status();
  }

  Status end_comm(const Status& failed) {
    comm_.engine->fail(failed, rank_);
    return comm_.engine->health();
  }

  Status finish(const Extents& extents) {
    const std::uint64_t entries = exchange_.entries();
    call_.out_nnz = entries;
    if (entries > extents.min_capacity) {
      const int least = extents.min_capacity_rank;
      return Status(
          Code::kTruncated,
          fmt::format("{}the result has {} entries, and rank {} ({}) has room for {} "
                      "only: nothing was written; call again with so much room",
                      kCallName, entries, least, comm_.engine->transport().describe_peer(least),
                      extents.min_capacity));
    }
    if (!exchange_.write(call_.out_indices, call_.out_values))
      return sparse_sum::refuse_part(comm_, sparse_sum::kNoPeer);
    note_round();
    note_result(extents, entries);
    return {};
  }

  void note_result(const Extents& extents, std::uint64_t entries) {
    call_.out_nnz = entries;
    report_.nnz_in = call_.indices.size();
    report_.nnz_out = entries;
    report_.dense_bytes = call_.count * element_bytes(call_.datatype);
    report_.bound_bytes = sparse_sum::exact_sum_bytes(
        {ranks_, call_.count, extents.max_entries, element_bytes(sent_)}, report_.nnz_in, entries);
    report_.algorithm = std::ranges::find(kRoutes, plan_.top() > 0, &RouteRow::has_leaders)->name;
    report_.wire = sent_;
    report_.applied = true;
  }

  void note_round() {
    sparcl::aggregate::AggregatorStats& stats = call_.aggregator->stats();
    ++stats.rounds;
    stats.listed = round_.listed;
    stats.refused = static_cast<std::uint64_t>(ranks_) - round_.listed;
    stats.own_was_refused = !round_.counts(rank_);
    stats.own_was_clipped = round_.screening.clip[static_cast<std::size_t>(rank_)] != 1;
    stats.total_weight = round_.total_weight;
  }

  const CommContext& comm_;
  std::uint32_t number_;
  AggregateCall& call_;
  CallReport& report_;
  int rank_, ranks_;
  ShardPlan plan_;
  ShardExchange exchange_;
  sparse::SortedEntries entries_;
  DataType sent_ = DataType::kFloat32;
  AgreedRound round_;
};

}  // namespace

const comm::AlgorithmChoice kAggregateAlgorithms{
    "ALGO_AGGREGATE",
    "How entries reach the ranks that aggregate them, and how results come back. shards: directly. "
    "leaders: by a rank of each node, and of each place of SPARCL_PLACE, which sums the entries of "
    "its ranks. auto: leaders, if there are several nodes or places, and one has several ranks. "
    "Both give the same bits.",
    route_names};

const CollectiveDescriptor kAggregate{CallKind::kAggregate, "sparclAggregate", false, choice,
                                      route_name,           nullptr,           detail};

Task aggregate(const CommContext& comm, std::uint32_t number, AggregateCall& call,
               CallReport& report) {
  return agreed_call(comm, number, std::make_unique<Aggregation>(comm, number, call, report),
                     report);
}

}  // namespace sparcl::collectives::aggregate
