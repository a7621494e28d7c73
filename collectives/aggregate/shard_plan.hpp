#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "src/aggregate/outer/shard.hpp"
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
  }

  std::uint64_t shards() const { return shards_; }
  int owner(std::uint64_t shard) const { return owners_[shard * owners_.size() / shards_]; }
  std::size_t nodes() const { return nodes_.size(); }
  const std::vector<int>& ranks_of(std::size_t node) const { return nodes_[node]; }
  std::size_t node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  // The rank that sums the node's contributions to the shard, and gives its result to the node: its
  // owner in the owner's node, else the node's ranks take turns.
  int leader(std::size_t node, std::uint64_t shard) const {
    const int own = owner(shard);
    return node_of(own) == node ? own : nodes_[node][shard % nodes_[node].size()];
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
  std::vector<std::vector<int>> nodes_;
  std::vector<std::size_t> node_of_;  // by rank
};

template <class Counts, class Visit>
void ShardPlan::visit_sums(std::size_t node, Counts&& counts, Visit&& visit) const {
  const auto is_own = [&](int rank) { return node_of(rank) == node && counts(rank); };
  const auto has_parts = [&](const sparcl::aggregate::Subtree& subtree) {
    const auto end = std::min<std::uint64_t>(subtree.end(), node_of_.size());
    for (std::uint64_t rank = subtree.first; rank < end; ++rank) {
      if (is_own(static_cast<int>(rank))) return true;
    }
    return false;
  };
  sparcl::aggregate::SlotSpan span{0, 0};
  const auto visit_span = [&](std::uint64_t end) {
    span.end = end;
    sparcl::aggregate::visit_largest(span, {0, sparcl::aggregate::kLog2MaxSlots}, has_parts, visit);
    span.first = end + 1;
  };
  for (std::size_t rank = 0; rank < node_of_.size(); ++rank) {
    const int each = static_cast<int>(rank);
    if (node_of(each) != node && counts(each)) visit_span(rank);
  }
  visit_span(sparcl::aggregate::kAllSlots.end);
}

}  // namespace sparcl::collectives::aggregate
