#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "src/aggregate/outer/aggregator.hpp"
#include "src/aggregate/sum/slot_tree.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::collectives::aggregate {

// The shards and their ranks. Lower ranks have lower shards.
class ShardPlan {
 public:
  // owners: ranks that aggregate, ascending; none: all. nodes: groups of ranks with leaders, none:
  // all ranks are one group.
  ShardPlan(std::uint64_t count, std::vector<int> owners, std::vector<std::vector<int>> nodes,
            int ranks)
      : count_(count), owners_(std::move(owners)), nodes_(std::move(nodes)) {
    if (nodes_.empty()) {
      nodes_.emplace_back(static_cast<std::size_t>(ranks));
      std::iota(nodes_.front().begin(), nodes_.front().end(), 0);
    }
    node_of_.resize(static_cast<std::size_t>(ranks));
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      for (const int rank : nodes_[node]) node_of_[static_cast<std::size_t>(rank)] = node;
    }
    if (owners_.empty()) {
      owners_.resize(static_cast<std::size_t>(ranks));
      std::iota(owners_.begin(), owners_.end(), 0);
    }
    shards_ = sparcl::aggregate::shards_of(count, owners_.size());
    for (const std::vector<int>& node : nodes_) {
      std::vector<int>& leaders = leaders_.emplace_back();
      std::ranges::copy_if(node, std::back_inserter(leaders),
                           [&](int rank) { return std::ranges::binary_search(owners_, rank); });
      if (leaders.empty()) leaders = node;
    }
  }

  std::uint64_t shards() const { return shards_; }
  int owner(std::uint64_t shard) const { return owners_[shard * owners_.size() / shards_]; }
  std::size_t nodes() const { return nodes_.size(); }
  const std::vector<int>& ranks_of(std::size_t node) const { return nodes_[node]; }
  std::size_t node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  // The rank that sums the node's contributions to the shard, and gives its result to the node: its
  // owner in the owner's node, else the node's ranks that aggregate take turns; where none
  // does, all of them.
  int leader(std::size_t node, std::uint64_t shard) const {
    const int own = owner(shard);
    return node_of(own) == node ? own : leaders_[node][shard % leaders_[node].size()];
  }
  // Calls visit(subtree) for the sums that the node's leader sends to a shard's owner: of the
  // largest subtrees in which all ranks that count are the node's. counts(rank): it does.
  template <class Counts, class Visit>
  void visit_sums(std::size_t node, Counts&& counts, Visit&& visit) const;

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
  std::vector<std::vector<int>> nodes_, leaders_;
  std::vector<std::size_t> node_of_;  // by rank
};

template <class Counts, class Visit>
void ShardPlan::visit_sums(std::size_t node, Counts&& counts, Visit&& visit) const {
  std::vector<std::uint64_t> own;
  std::ranges::copy_if(nodes_[node], std::back_inserter(own), counts);
  std::ranges::sort(own);
  auto next = own.cbegin();  // of those that no span has had
  const auto has_parts = [&](const sparcl::aggregate::Subtree& subtree) {
    const auto first = std::lower_bound(own.cbegin(), own.cend(), subtree.first);
    return first != own.cend() && *first < subtree.end();
  };
  const std::uint64_t ranks = node_of_.size();
  std::uint64_t first = 0;  // after the last rank of another node that counts
  for (std::uint64_t rank = 0; rank <= ranks && next != own.cend(); ++rank) {
    if (rank < ranks && (node_of_[rank] == node || !counts(static_cast<int>(rank)))) continue;
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
