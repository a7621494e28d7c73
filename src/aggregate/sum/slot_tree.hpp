#pragma once
// The sum over slots, in an order that depends on the slots alone. As in
// src/sparse/parts/rank_tree, T(a, b) = T(a, m) + T(m, b), where m - a is the largest power of two
// below b - a. An empty slot adds nothing, so that T of all slots is one tree however many there
// are. Whatever the order of arrival, and whoever merges which subtree, the bits are the same.
//
// Subtrees of 8^j slots are merged once all of their slots are there. Cost: log8(slots) passes over
// the entries.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "src/aggregate/sum/waiting_parts.hpp"
#include "src/base/status.hpp"
#include "src/sparse/parts/part_sum.hpp"

namespace sparcl::aggregate {

// The slots from `first` on, 2^log2_slots of them; first is a multiple of that number.
struct Subtree {
  std::uint32_t first = 0;
  std::uint32_t log2_slots = 0;

  std::uint64_t slots() const { return std::uint64_t{1} << log2_slots; }
  std::uint64_t end() const { return first + slots(); }
};

// The slots [first, end).
struct SlotSpan {
  std::uint64_t first = 0;
  std::uint64_t end = 0;

  bool holds(const Subtree& subtree) const {
    return first <= subtree.first && subtree.end() <= end;
  }
};

constexpr std::uint32_t kLog2MaxSlots = 31;
constexpr SlotSpan kAllSlots{0, std::uint64_t{1} << kLog2MaxSlots};

// Calls visit(subtree) for the largest subtrees within the span, and below `subtree`, that have
// parts: has_parts(subtree) says so. In the order of slots.
template <class HasParts, class Visit>
void visit_largest(const SlotSpan& span, const Subtree& subtree, HasParts&& has_parts,
                   Visit&& visit) {
  const bool is_apart = subtree.end() <= span.first || span.end <= subtree.first;
  if (is_apart || !has_parts(subtree)) return;
  if (span.holds(subtree)) return visit(subtree);
  if (subtree.log2_slots == 0) return;
  const std::uint32_t log2 = subtree.log2_slots - 1;
  visit_largest(span, {subtree.first, log2}, has_parts, visit);
  visit_largest(span, {subtree.first + (std::uint32_t{1} << log2), log2}, has_parts, visit);
}

class SlotTree {
 public:
  // All parts are of this run, with float32 values. waiting: where they wait.
  SlotTree(BufferSource& buffers, const kernels::KernelSet& kernels, const sparse::BlockRun& run,
           WaitingParts& waiting);

  // part: the sum T of the subtree's slots. InvalidArgument if it is no part of the run, or if some
  // of the slots are there already: nothing has changed then.
  Status add(const Subtree& subtree, Buffer part);

  // The sums that a leader sends on, in the order of slots: of the largest subtrees within the span
  // that have parts. No other leader has parts of these slots. They are removed.
  struct Node {
    Subtree subtree;
    Buffer part;
  };
  std::vector<Node> take(const SlotSpan& span);

  // The sum of all; a part without entries if there are none. The tree is empty then.
  Buffer finish();

 private:
  using Nodes = std::map<std::uint32_t, Node>;

  Status check(const Subtree& subtree, std::span<const std::byte> part) const;
  bool is_complete(const Subtree& subtree) const;
  bool has_parts(const Subtree& subtree) const;
  Buffer fold(const Subtree& subtree);
  void insert(const Subtree& subtree, Buffer part);
  Buffer remove(Nodes::iterator node);
  Buffer no_entries();

  BufferSource& buffers_;
  const kernels::KernelSet& kernels_;
  sparse::BlockRun run_;
  sparse::PartSum sum_;
  WaitingParts& waiting_;
  Nodes nodes_;  // by their first slot
};

}  // namespace sparcl::aggregate
