#include "collectives/aggregate/shard_plan.hpp"

#include <numeric>

namespace sparcl::collectives::aggregate {

ShardPlan::ShardPlan(std::uint64_t count, std::vector<int> owners, comm::PlaceTree levels,
                     int ranks)
    : count_(count), owners_(std::move(owners)) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  if (owners_.empty()) owners_ = all;
  shards_ = sparcl::aggregate::shards_of(count, owners_.size());
  levels.push_back({std::move(all)});
  for (const auto& groups : levels) add_level(groups, static_cast<std::size_t>(ranks));
}

void ShardPlan::add_level(const std::vector<std::vector<int>>& groups, std::size_t ranks) {
  const Level* const below = levels_.empty() ? nullptr : &levels_.back();
  Level level;
  level.group_of.resize(ranks);
  level.turn = below == nullptr ? 1 : below->turn * below->max_candidates;
  std::vector<bool> is_known(below == nullptr ? 0 : below->groups.size());
  for (const std::vector<int>& members : groups) {
    Group& group = level.groups.emplace_back();
    group.ranks = members;
    std::vector<std::size_t> aggregating;
    for (const int rank : members) {
      level.group_of[static_cast<std::size_t>(rank)] = level.groups.size() - 1;
      const bool aggregates = std::ranges::binary_search(owners_, rank);
      group.has_owner = group.has_owner || aggregates;
      if (below == nullptr) {
        group.candidates.push_back(static_cast<std::size_t>(rank));
        if (aggregates) aggregating.push_back(static_cast<std::size_t>(rank));
        continue;
      }
      const std::size_t child = below->group_of[static_cast<std::size_t>(rank)];
      if (is_known[child]) continue;
      is_known[child] = true;
      group.children.push_back(child);
      if (below->groups[child].has_owner) aggregating.push_back(child);
    }
    if (below != nullptr) group.candidates = group.children;
    if (!aggregating.empty()) group.candidates = std::move(aggregating);
    level.max_candidates = std::max(level.max_candidates, group.candidates.size());
  }
  levels_.push_back(std::move(level));
}

int ShardPlan::leader(std::size_t level, std::size_t group, std::uint64_t shard) const {
  const int own = owner(shard);
  if (group_of(level, own) == group) return own;
  const Level& here = levels_[level];
  const std::vector<std::size_t>& candidates = here.groups[group].candidates;
  const std::size_t chosen = candidates[shard / here.turn % candidates.size()];
  return level == 0 ? static_cast<int>(chosen) : leader(level - 1, chosen, shard);
}

}  // namespace sparcl::collectives::aggregate
