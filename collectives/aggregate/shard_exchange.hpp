#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "collectives/aggregate/aggregation.hpp"
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

// The shards and their ranks. Lower ranks have lower shards.
class ShardPlan {
 public:
  // owners: ranks that aggregate, ascending; none: all.
  ShardPlan(std::uint64_t count, std::vector<int> owners, int ranks)
      : count_(count), owners_(std::move(owners)) {
    if (owners_.empty()) {
      owners_.resize(static_cast<std::size_t>(ranks));
      std::iota(owners_.begin(), owners_.end(), 0);
    }
    shards_ = sparcl::aggregate::shards_of(count, owners_.size());
  }

  std::uint64_t shards() const { return shards_; }
  int owner(std::uint64_t shard) const { return owners_[shard * owners_.size() / shards_]; }
  sparcl::aggregate::ShardRange range(std::uint64_t shard) const {
    return sparcl::aggregate::shard_range(count_, shards_, shard);
  }
  // Without elements if the rank owns no shard.
  sparcl::aggregate::ShardRange range_of_rank(int rank) const {
    for (std::uint64_t shard = 0; shard < shards_; ++shard) {
      if (owner(shard) == rank) return range(shard);
    }
    return {};
  }
  sparse::BlockRun run(std::uint64_t shard) const {
    const sparcl::aggregate::ShardRange own = range(shard);
    return {own.first >> 16, (own.count + 65535) >> 16, 16};
  }

 private:
  std::uint64_t count_, shards_ = 1;
  std::vector<int> owners_;
};

// Contributions go up to the shards' ranks, results come down to all ranks.
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

  // This rank's shard: the sum over all ranks that count, and for means over contributors that of
  // the weights. Both are empty if it has none.
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

  Status add(sparcl::aggregate::SlotTree& values, sparcl::aggregate::SlotTree& weights, int rank,
             const Buffer& part, const AgreedRound& round);
  bool write_indices(std::uint64_t shard, kernels::Output output, std::uint64_t* indices) const;
  void write_values(const sparse::PartView& view, kernels::Output output, std::byte* values) const;
  Status take(std::uint64_t shard, const Buffer& part);
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
  Buffer own_part_;                                       // to the own shard
  std::vector<sparse_sum::PartMessages::Arrival> ups_;    // by rank
  std::vector<sparse_sum::PartMessages::Arrival> downs_;  // by shard
  std::vector<Result> results_;                           // by shard
};

}  // namespace sparcl::collectives::aggregate
