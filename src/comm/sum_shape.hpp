#pragma once
// Facts about a sparse sum before it begins, and the plan for it.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "src/base/determinism.hpp"
#include "src/comm/cost_model.hpp"
#include "src/comm/node_map.hpp"

namespace sparcl::comm {

// The cost of messages inside a node, if the measured links are between nodes. Heuristic: the
// estimate for shared memory.
constexpr LinkCost kNodeLink{};

// The entropy of the positions of `entries` among `count` elements, in bytes an entry.
double coded_place_bytes(double entries, std::uint64_t count);

// Inputs to the choice of an algorithm: the same on all ranks.
struct SumShape {
  int ranks = 1;
  std::uint64_t count = 0;
  std::uint64_t max_entries = 0;
  std::size_t value_bytes = 4;
  double union_share = 1;  // LearnedUnion's
  std::uint64_t max_scratch_bytes = UINT64_MAX;
  bool is_coded = false;   // entries
  int ranks_per_node = 1;  // 1: no nodes
  bool nodes_are_subtrees = false;
  std::size_t accumulator_bytes = 4;  // of a value that is not rounded yet

  void set_nodes(const NodeMap& map) {
    ranks_per_node = map.ranks_per_node();
    nodes_are_subtrees = map.are_subtrees();
  }

  // The number of entries in the union of so many ranks: for independent supports, corrected by the
  // last call's union.
  double union_of(double ranks_together) const;
  double independent_union(double ranks_together) const;
  // The share that makes the union of all ranks as large as `found`.
  double share_of(std::uint64_t found) const;
  // How often an entry is merged in the tree over ranks.
  double tree_depth() const { return ranks > 2 ? std::ceil(std::log2(ranks)) : 1; }
  // Coding an entry, at one end. Heuristic: bench_sparse_sum.
  double coding_s() const { return is_coded ? 1.5e-9 : 0; }
  double place_bytes() const {
    return is_coded ? coded_place_bytes(static_cast<double>(max_entries), count) : 2;
  }
  double entry_bytes() const { return static_cast<double>(value_bytes) + place_bytes(); }
  // The seconds to send a byte to each other rank.
  double byte_to_all_s(const LinkCost& link) const {
    return (ranks - ranks_per_node) * link.beta_s_per_byte +
           (ranks_per_node - 1) * kNodeLink.beta_s_per_byte;
  }
  double node_sum_bytes() const {
    return static_cast<double>(accumulator_bytes) + place_bytes();
  }  // of an entry

  bool operator==(const SumShape&) const = default;
};

// The plan of a communicator's last call.
struct LastSumPlan {
  SumShape shape;
  Determinism determinism = Determinism::kCanonical;
  std::uint8_t forced = 0;
  std::uint8_t row = 0;  // of the table of sparse sums, counted from 1; 0: there was no call
  double seconds = 0;    // predicted
};

}  // namespace sparcl::comm
