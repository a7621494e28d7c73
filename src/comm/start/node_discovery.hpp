#pragma once
// Which ranks share a node, once, after they have opened each other's windows.

#include <cstdint>
#include <span>

#include "src/comm/comm_context.hpp"

namespace sparcl::comm {

// What a rank tells of those that it shares windows with, itself among them.
struct Neighbours {
  std::uint32_t first = 0;  // the lowest rank
  std::uint32_t count = 1;
};

// No nodes where sharing does not divide the ranks into groups of the same size.
NodeMap node_map(std::span<const Neighbours> by_rank);

// All ranks take part. Sets comm.node_map and comm.crowding.
Task find_nodes(CommContext& comm, transport::Channel channel);

}  // namespace sparcl::comm
