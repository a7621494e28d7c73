#pragma once
// Positions as sub-blocks of 2^c elements (docs/reference/wire-format.md), for block masks. One
// list has the changed sub-blocks, a second one the changes in these, put end to end. If whole
// sub-blocks change there is no second list: a sub-block costs as much as one change.

#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

constexpr unsigned kMaxSubShift = 15;  // sub-blocks have 2^1 to 2^15 elements

// The c of the largest sub-blocks that change only as a whole; 0: there are none. Most lists fail
// at their first positions. A last sub-block may be short.
template <class Position>
unsigned whole_sub_shift(std::span<const Position> positions, std::uint32_t elements);

// The number of sub-blocks.
constexpr std::uint32_t subs_of(std::uint32_t elements, unsigned shift) {
  return (elements >> shift) + ((elements & ((1u << shift) - 1)) != 0 ? 1 : 0);
}

// A list that is ready to be written. Position: 16 or 32 bits; of 32 bits at most 16,384.
class BlockSparseList {
 public:
  // The extent of the search. Sub-blocks that change in part are found only by a pass over all
  // positions. Unless thorough, that pass runs only if the positions take many bits otherwise.
  enum class Look : std::uint8_t { kWhole, kAlsoPartly, kThorough };

  // Positions below `elements`. False if they are unlikely to take fewer than `enough_bits`,
  // including the list's own head: then the list cannot be used.
  template <class Position>
  bool prepare(const kernels::ListKernels& kernels, std::span<const Position> positions,
               std::uint32_t elements, std::uint64_t enough_bits, Look look);

  std::size_t head_bytes() const;
  std::uint64_t bits() const { return subs_.bits() + inner_.bits(); }

  std::byte* write_head(std::byte* out) const;
  void write_planes(const kernels::ListKernels& kernels, kernels::BitWriter& bits) const;
  void write_unary(const kernels::ListKernels& kernels, kernels::BitWriter& bits) const;

 private:
  template <class Position>
  std::size_t list_whole_subs(std::span<const Position> positions);
  template <class Position>
  std::size_t list_partial_subs(std::span<const Position> positions);
  void list_inner(const kernels::ListKernels& kernels, std::size_t sub_count, std::size_t changes,
                  std::uint32_t elements);

  unsigned shift_ = 1;
  RiceList subs_;
  RiceList inner_;  // of the changes; if most elements change, of the unchanged ones
  Scratch<std::uint32_t> sub_ids_;
  Scratch<std::uint32_t> inner_positions_;
  Scratch<std::uint32_t> unchanged_;
};

// Reads untrusted bytes, in the order in which they are written.
class BlockSparseReader {
 public:
  // False if the head is invalid.
  bool read_head(std::span<const std::byte>& payload, std::uint32_t elements, std::size_t count);
  bool read_planes(const kernels::ListKernels& kernels, BitCursor& bits);
  // Writes the positions (room for kPositionSlack more).
  bool read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint32_t* positions);

 private:
  void fill_gaps(const std::uint32_t* unchanged, std::uint32_t* positions) const;
  void move_all(std::uint32_t* positions) const;

  std::uint32_t elements_ = 0;
  std::size_t count_ = 0;
  unsigned shift_ = 1;
  std::size_t sub_count_ = 0;
  std::uint32_t span_ = 0;  // elements of the listed sub-blocks
  bool inverted_ = false;
  RiceListReader subs_;
  RiceListReader inner_;
  Scratch<std::uint32_t> moves_;  // for each listed sub-block, the distance from its index in the
                                  // list to its own index
  Scratch<std::uint32_t> unchanged_;
};

}  // namespace sparcl::codec
