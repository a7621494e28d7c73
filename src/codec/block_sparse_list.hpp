#pragma once
// Positions as sub-blocks of 2^c elements (docs/reference/wire-format.md), for block masks: which
// sub-blocks have changes, and where the changes are in these, put end to end. Where whole
// sub-blocks change there is no second list: a sub-block costs what one change would.

#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

constexpr unsigned kMaxSubShift = 15;  // sub-blocks have 2^1 to 2^15 elements

// The c of the largest sub-blocks of which all that change do so as a whole; 0: there are none.
// Most lists are refused by their first positions. A last sub-block may be short.
template <class Position>
unsigned whole_sub_shift(std::span<const Position> positions, std::uint32_t elements);

// How many sub-blocks there are.
constexpr std::uint32_t subs_of(std::uint32_t elements, unsigned shift) {
  return (elements >> shift) + ((elements & ((1u << shift) - 1)) != 0 ? 1 : 0);
}

// Ready to be written. Position: of 16 or of 32 bits; of the latter at most 16,384.
class BlockSparseList {
 public:
  // What is to be looked for. Sub-blocks that change in part are not found without a look at all
  // positions; unless thorough, only where these take many bits otherwise.
  enum class Look : std::uint8_t { kWhole, kAlsoPartly, kThorough };

  // Positions below `elements`. False if they are not likely to take fewer than `enough_bits`, its
  // own head included: then the list cannot be used.
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
  RiceList inner_;  // of the changes; where most change, of what does not
  Scratch<std::uint32_t> sub_ids_;
  Scratch<std::uint32_t> inner_positions_;
  Scratch<std::uint32_t> unchanged_;
};

// Reads hostile bytes, in the order in which they are written.
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
  std::uint32_t span_ = 0;  // elements of the sub-blocks that are listed
  bool inverted_ = false;
  RiceListReader subs_;
  RiceListReader inner_;
  Scratch<std::uint32_t> moves_;  // of each listed sub-block, from its place among these to its own
  Scratch<std::uint32_t> unchanged_;
};

}  // namespace sparcl::codec
