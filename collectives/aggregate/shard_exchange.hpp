#pragma once

#include <optional>
#include <vector>

#include "collectives/aggregate/aggregation.hpp"
#include "collectives/aggregate/shard_plan.hpp"
#include "collectives/sparse_sum/part_messages.hpp"
#include "src/aggregate/sum/slot_tree.hpp"
#include "src/sparse/parts/sorted_entries.hpp"

namespace sparcl::collectives::aggregate {

// A rank's facts about its contribution, which all ranks get. Sent as it is: no padding.
struct RankFacts {
  double weight = 1;
  double squares = 0;
  std::uint64_t not_finite = 0;
  std::uint64_t entries = 0;
};

// A round, decided alike on all ranks.
struct AgreedRound {
  std::vector<RankFacts> facts;  // by rank
  sparcl::aggregate::Screening screening;
  double total_weight = 0;
  std::uint64_t listed = 0;

  bool counts(int rank) const { return !screening.is_refused[static_cast<std::size_t>(rank)]; }
};

// Contributions go up to the shards' ranks, by the leaders of the plan's groups; results come down
// to all ranks in the same way.
class ShardExchange {
 public:
  ShardExchange(const CommContext& comm, std::uint32_t number, const AggregateCall& call,
                const ShardPlan& plan, Traffic& traffic)
      : comm_(comm),
        call_(call),
        plan_(plan),
        rank_(comm.engine->transport().rank()),
        ranks_(comm.engine->transport().size()),
        number_(number),
        messages_(comm, number, traffic) {}

  // sent: the type of the entries' values. max_entries: of any rank.
  void post(const sparse::SortedEntries& entries, DataType sent, std::uint64_t max_entries);

  // Gives all ranks `own`, a few bytes, and gets those of all, in the order of ranks.
  Task tell_all(std::span<const std::byte> own, std::vector<std::byte>& all);
  void expect_results();

  // Sums what this rank leads, and sends the sums on. Gives those of its own shard: over all ranks
  // that count, and for means over contributors of their weights. Both are empty if it has no
  // shard.
  struct Sums {
    Buffer values, weights;
  };
  Task sum(const AgreedRound& round, Sums& sums);

  // This rank's result as a part.
  Buffer pack(const sparcl::aggregate::ShardResult& own);
  // Sends it, if this rank has a shard, and takes those of all shards.
  Task spread(const Buffer& own);
  std::uint64_t entries() const;
  // Writes the results in the order of the elements. False if a part has elements that are not its
  // shard's. There is room for entries().
  bool write(std::uint64_t* indices, std::byte* values) const;

  Task wait_sent() { return messages_.wait_sent(); }

 private:
  struct Result {
    Buffer part;
    sparse::PartView view;
  };

  // The contributions to a shard, of a group that this rank leads.
  struct Lead {
    std::uint64_t shard = 0;
    bool is_sent = false;  // to the leader above
    Buffer own_part;
    std::vector<sparse_sum::PartMessages::Arrival> parts;  // of the other ranks of level 0
    std::optional<sparcl::aggregate::SlotTree> values, weights;
  };
  bool sums_weights() const {
    return call_.aggregator->options().mean == sparcl::aggregate::MeanKind::kOverContributors;
  }
  bool leads(std::size_t level, std::uint64_t shard) const {
    return plan_.leader_of(level, rank_, shard) == rank_;
  }
  Task sum_ranks(Lead& lead, const AgreedRound& round);
  void send_up(Lead& lead, std::size_t level, const AgreedRound& round);
  Task take_groups(Lead& lead, std::size_t level, const AgreedRound& round);
  // A sum of a group of the level below.
  struct GroupSum {
    sparcl::aggregate::Subtree subtree;
    bool is_of_weights = false;
    int from = 0;  // its leader
    sparse_sum::PartMessages::Arrival arrival;
  };
  std::vector<GroupSum> expect_groups(const Lead& lead, std::size_t level,
                                      const AgreedRound& round) const;
  void give_down(std::uint64_t shard, std::uint8_t lane, const Buffer& part);
  Status add(Lead& lead, int rank, const Buffer& part, const AgreedRound& round);
  bool write_indices(std::uint64_t shard, kernels::Output output, std::uint64_t* indices) const;
  void write_values(const sparse::PartView& view, kernels::Output output, std::byte* values) const;
  Status take(std::uint64_t shard, const Buffer& part, int from);
  // The rank and lane that the result of a shard comes from.
  struct Source {
    int rank = 0;
    std::uint8_t lane = 0;
  };
  Source source(std::uint64_t shard) const;
  sparse::WireType wire() const;
  sparse::PartShape down_shape(std::uint64_t shard) const;

  const CommContext& comm_;
  const AggregateCall& call_;
  const ShardPlan& plan_;
  int rank_, ranks_;
  std::uint32_t number_;
  sparse_sum::PartMessages messages_;
  DataType sent_ = DataType::kFloat32;
  std::uint64_t own_shard_ = UINT64_MAX;                  // UINT64_MAX: none
  sparcl::aggregate::WaitingParts waiting_;               // in memory
  std::vector<Lead> leads_;                               // by shard
  std::vector<sparse_sum::PartMessages::Arrival> downs_;  // by shard
  std::vector<Result> results_;                           // by shard
};

}  // namespace sparcl::collectives::aggregate
