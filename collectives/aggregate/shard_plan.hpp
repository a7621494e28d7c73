#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "src/aggregate/outer/aggregator.hpp"
#include "src/aggregate/sum/slot_tree.hpp"
#include "src/comm/node_map.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::collectives::aggregate {

// The shards, their ranks, and the tree of groups by which entries reach them. Lower ranks have
// lower shards. Level 0 has groups of ranks, each later level groups of the groups before, and the
// last one the group of all ranks.
class ShardPlan {
 public:
  // owners: ranks that aggregate, ascending; none: all. levels: those below the last.
  ShardPlan(std::uint64_t count, std::vector<int> owners, comm::PlaceTree levels, int ranks);

  std::uint64_t shards() const { return shards_; }
  int owner(std::uint64_t shard) const { return owners_[shard * owners_.size() / shards_]; }

  std::size_t top() const { return levels_.size() - 1; }
  std::size_t group_of(std::size_t level, int rank) const {
    return levels_[level].group_of[static_cast<std::size_t>(rank)];
  }
  const std::vector<int>& ranks_of(std::size_t level, std::size_t group) const {
    return levels_[level].groups[group].ranks;
  }
  // The groups of the level below. level: not 0.
  const std::vector<std::size_t>& children_of(std::size_t level, std::size_t group) const {
    return levels_[level].groups[group].children;
  }
  // The rank that sums the group's contributions to the shard, and gives its result to the group:
  // the shard's owner in its own groups. Else groups below that have ranks that aggregate take
  // turns, and in the lowest one these ranks; where none aggregates, all of them.
  int leader(std::size_t level, std::size_t group, std::uint64_t shard) const;
  // That of the rank's own group.
  int leader_of(std::size_t level, int rank, std::uint64_t shard) const {
    return leader(level, group_of(level, rank), shard);
  }
  // Calls visit(subtree) for the sums that the group's leader sends up: of the largest subtrees in
  // which all ranks that count are the group's. counts(rank): it does.
  template <class Counts, class Visit>
  void visit_sums(std::size_t level, std::size_t group, Counts&& counts, Visit&& visit) const;

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
  struct Group {
    std::vector<int> ranks;
    std::vector<std::size_t> children;  // of the level below
    // Those that take turns as leaders: ranks on level 0, children above.
    std::vector<std::size_t> candidates;
    bool has_owner = false;
  };
  struct Level {
    std::vector<Group> groups;
    std::vector<std::size_t> group_of;  // by rank
    std::size_t max_candidates = 1;     // of any group
    std::uint64_t turn = 1;  // shards until the next candidate has its turn, so that those of
                             // different levels do not go in step
  };
  void add_level(const std::vector<std::vector<int>>& groups, std::size_t ranks);

  std::uint64_t count_, shards_ = 1;
  std::vector<int> owners_;
  std::vector<Level> levels_;
};

template <class Counts, class Visit>
void ShardPlan::visit_sums(std::size_t level, std::size_t group, Counts&& counts,
                           Visit&& visit) const {
  const std::vector<std::size_t>& group_of = levels_[level].group_of;
  std::vector<std::uint64_t> own;
  std::ranges::copy_if(ranks_of(level, group), std::back_inserter(own), counts);
  std::ranges::sort(own);
  auto next = own.cbegin();  // of those that no span has had
  const auto has_parts = [&](const sparcl::aggregate::Subtree& subtree) {
    const auto first = std::lower_bound(own.cbegin(), own.cend(), subtree.first);
    return first != own.cend() && *first < subtree.end();
  };
  const std::uint64_t ranks = group_of.size();
  std::uint64_t first = 0;  // after the last rank of another group that counts
  for (std::uint64_t rank = 0; rank <= ranks && next != own.cend(); ++rank) {
    if (rank < ranks && (group_of[rank] == group || !counts(static_cast<int>(rank)))) continue;
    const std::uint64_t end = rank < ranks ? rank : sparcl::aggregate::kAllSlots.end;
    if (*next < end) {
      sparcl::aggregate::visit_largest({first, end}, {0, sparcl::aggregate::kLog2MaxSlots},
                                       has_parts, visit);
      next = std::lower_bound(next, own.cend(), end);
    }
    first = rank + 1;
  }
}

}  // namespace sparcl::collectives::aggregate
