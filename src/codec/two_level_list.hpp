#pragma once
// Positions on two levels (docs/reference/wire-format.md), for changes that come in clusters. The
// long gaps between clusters are listed apart from the short gaps inside clusters. Given a change,
// the gap after it does not depend on the gaps before it. The list therefore costs little more than
// the entropy of the clusters, for all positions and lengths. Elements that change in one piece
// cost next to nothing: if every nonzero gap is long, short gaps take no bits.

#include <array>
#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

// A list that is ready to be written. Position: 16 bits for a block, 32 for a group of blocks.
template <class Position>
class BasicTwoLevelList {
 public:
  // Positions below `elements`, which cost flat_bits as one list. False if two lists are unlikely
  // to be smaller: then the list cannot be used. Unless thorough, also false if a sample of the
  // positions does not promise a gain of a sixteenth.
  static constexpr std::uint64_t kAnySize = std::uint64_t{1} << 40;
  bool prepare(const kernels::ListKernels& kernels, std::span<const Position> positions,
               std::uint32_t elements, std::uint64_t flat_bits, bool thorough);
  // The test that prepare() makes first unless thorough.
  static bool is_likely_smaller(std::span<const Position> positions, std::uint32_t elements);

  std::size_t head_bytes() const;
  std::uint64_t bits() const { return places_.bits() + long_.bits() + short_.bits(); }

  std::byte* write_head(std::byte* out) const;
  void write_planes(const kernels::ListKernels& kernels, kernels::BitWriter& bits) const;
  void write_unary(const kernels::ListKernels& kernels, kernels::BitWriter& bits) const;

 private:
  void list_gaps(const kernels::ListKernels& kernels, std::span<const Position> positions,
                 std::uint32_t elements);

  unsigned long_shift_ = 0;  // a gap of 2^long_shift_ elements is long
  RiceList places_;          // the changes after long gaps, by their number among all changes
  RiceList long_;
  RiceList short_;
  Scratch<std::uint16_t> place_positions_;
  Scratch<Position> long_positions_;
  Scratch<Position> short_positions_;
};

using TwoLevelList = BasicTwoLevelList<std::uint16_t>;

// Reads untrusted bytes, in the order in which they are written.
template <class Position>
class BasicTwoLevelReader {
 public:
  // False if the head is invalid.
  bool read_head(std::span<const std::byte>& payload, std::uint32_t elements, std::size_t count);
  bool read_planes(const kernels::ListKernels& kernels, BitCursor& bits);
  // Writes the positions (room for kPositionSlack more).
  bool read_unary(const kernels::ListKernels& kernels, BitCursor& bits, Position* positions);

 private:
  std::size_t short_count() const { return count_ - long_count_; }
  std::uint64_t end_of(const Position* short_positions) const;

  std::uint64_t elements_ = 0;
  std::size_t count_ = 0;
  std::size_t long_count_ = 0;
  unsigned long_shift_ = 0;
  unsigned short_shift_ = 0;
  RiceListReader places_;
  RiceListReader long_;
  RiceListReader short_;
  Scratch<std::uint16_t> place_positions_;
  Scratch<Position> long_positions_;
  Scratch<Position> short_positions_;
};

using TwoLevelReader = BasicTwoLevelReader<std::uint16_t>;

}  // namespace sparcl::codec
