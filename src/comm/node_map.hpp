#pragma once
// The ranks of each node, which read each other's windows (start/node_discovery.hpp).

#include <vector>

namespace sparcl::comm {

// The same on all ranks. Empty if nodes are of no use: all ranks are on one node, each has its own
// node, or nodes have different numbers of ranks.
struct NodeMap {
  std::vector<std::vector<int>> nodes;  // ranks ascend; nodes are in the order of their first rank,
                                        // and have equal numbers of ranks

  int ranks_per_node() const { return nodes.empty() ? 1 : static_cast<int>(nodes.front().size()); }

  // Whether each node's ranks are a subtree of the tree over ranks
  // (src/sparse/parts/rank_tree.hpp), and nodes are combined as ranks are.
  bool are_subtrees() const {
    const int each = ranks_per_node();
    int next = 0;
    for (const std::vector<int>& node : nodes) {
      for (const int rank : node) {
        if (rank != next++) return false;
      }
    }
    return (each & (each - 1)) == 0;
  }
};

// Groups of ranks at places, the smallest first: nodes, then what SPARCL_PLACE names, such as
// racks. Each group consists of groups of the level before. Levels have more than one group, and
// fewer than the level before. The same on all ranks.
using PlaceTree = std::vector<std::vector<std::vector<int>>>;

}  // namespace sparcl::comm
