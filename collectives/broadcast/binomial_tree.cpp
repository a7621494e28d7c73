// Binomial tree: the root sends to ceil(log2 P) ranks, largest subtree first. ceil(log2 P) (alpha +
// B beta): best for one small message.
#include <bit>

#include "collectives/broadcast/fanout.hpp"

namespace sparcl::collectives::broadcast {

Links binomial_tree_links(int rank, int root, int size) {
  const unsigned place = static_cast<unsigned>((rank - root + size) % size);
  const unsigned ranks = static_cast<unsigned>(size);
  const auto rank_at = [&](unsigned p) {
    return static_cast<int>((p + static_cast<unsigned>(root)) % ranks);
  };
  Links links;
  unsigned bit = std::bit_ceil(ranks);
  if (place > 0) {
    bit = place &
          (~place +
           1);  // the lowest set bit: cleared, it names the parent; below it hang the children
    links.parent = rank_at(place & ~bit);
  }
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (place + bit < ranks) links.children.push_back(rank_at(place + bit));
  }
  return links;
}

double binomial_tree_seconds(const LinkCost& link, int size, std::uint64_t bytes,
                             std::uint64_t fragment_bytes) {
  const int rounds = std::bit_width(static_cast<unsigned>(size - 1));
  const double one = pipeline_seconds(link, bytes, fragment_bytes, 1, 1);
  // The root sends every fragment `rounds` times; the last child's subtree is a single rank.
  return rounds * one;
}

}  // namespace sparcl::collectives::broadcast
