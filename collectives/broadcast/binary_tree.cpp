// Pipelined complete binary tree: each rank sends to two. 2 (ceil(log2(P + 1)) - 2 + B/f)(alpha + f
// beta): best for many ranks.
#include <bit>

#include "collectives/broadcast/fanout.hpp"

namespace sparcl::collectives::broadcast {

Links binary_tree_links(int rank, int root, int size) {
  const int place = (rank - root + size) % size;  // in heap order
  Links links;
  if (place > 0) links.parent = ((place - 1) / 2 + root) % size;
  for (int child = 2 * place + 1; child <= 2 * place + 2 && child < size; ++child)
    links.children.push_back((child + root) % size);
  return links;
}

double binary_tree_seconds(const LinkCost& link, int size, std::uint64_t bytes,
                           std::uint64_t fragment_bytes) {
  const int depth = std::bit_width(static_cast<unsigned>(size)) - 1;
  return pipeline_seconds(link, bytes, fragment_bytes, size > 2 ? 2 : 1, depth);
}

}  // namespace sparcl::collectives::broadcast
