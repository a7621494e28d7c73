// Pipelined chain: each rank sends to one. (P - 2 + B/f)(alpha + f beta): best for long streams and
// few ranks.
#include "collectives/broadcast/fanout.hpp"

namespace sparcl::collectives::broadcast {

Links chain_links(int rank, int root, int size) {
  const int place = (rank - root + size) % size;  // counted from the root
  Links links;
  if (place > 0) links.parent = (rank - 1 + size) % size;
  if (place + 1 < size) links.children.push_back((rank + 1) % size);
  return links;
}

double chain_seconds(const LinkCost& link, int size, std::uint64_t bytes,
                     std::uint64_t fragment_bytes) {
  return pipeline_seconds(link, bytes, fragment_bytes, 1, size - 1);
}

}  // namespace sparcl::collectives::broadcast
