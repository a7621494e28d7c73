#pragma once
// Finds the ranks that share a node or a place, once, after they have opened each other's windows.

#include <cstdint>
#include <span>
#include <vector>

#include "src/comm/comm_context.hpp"
#include "src/comm/place.hpp"

namespace sparcl::comm {

// A rank's message about the ranks that share windows with it, itself among them. Sent as it is: no
// padding.
struct Neighbours {
  std::uint32_t first = 0;  // the lowest rank
  std::uint32_t count = 1;
  PlaceHashes places{};
};

// No nodes if sharing does not divide the ranks into groups of the same size.
NodeMap node_map(std::span<const Neighbours> by_rank);

// Without levels that say nothing new, or that are no unions of the level before. split: if it is
// not nullptr, gets a rank of each group that such a level splits.
PlaceTree place_tree(std::span<const Neighbours> by_rank, std::vector<int>* split = nullptr);

// All ranks take part. Sets the node map, the places and the oversubscription of `comm`.
Task find_nodes(CommContext& comm, transport::Channel channel);

}  // namespace sparcl::comm
