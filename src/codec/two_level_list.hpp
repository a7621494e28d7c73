#pragma once
// Positions on two levels (docs/wire-format.md), for changes that come in clusters: which sub-blocks of a block have any, and where
// the changes lie in these, put end to end. Whole sub-blocks that change cost next to nothing: where most elements change, those
// that do not are listed.

#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

constexpr unsigned kLeastSubShift = 4;  // sub-blocks have 2^4 to 2^12 elements
constexpr unsigned kMostSubShift = 12;
constexpr std::size_t kMaxSubs = std::size_t{1} << (16 - kLeastSubShift);

// Ready to be written.
class TwoLevelList {
 public:
  // Positions of a block of `elements`, which cost flat_bits as one list. False if two are not likely to be smaller: then the list
  // cannot be used. Unless thorough, that is so too where a sample of the positions does not promise a sixteenth.
  static constexpr std::uint64_t kAnySize = std::uint64_t{1} << 40;
  bool prepare(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions, std::uint32_t elements,
               std::uint64_t flat_bits, bool thorough);

  std::size_t head_bytes() const;
  std::uint64_t bits() const { return subs_.bits() + inner_.bits(); }

  std::byte* write_head(std::byte* out) const;
  void write_planes(const kernels::ListKernels& kernels, std::byte* flags, kernels::BitWriter& bits) const;
  void write_unary(const kernels::ListKernels& kernels, std::byte* flags, kernels::BitWriter& bits) const;

 private:
  void list_subs(const kernels::ListKernels& kernels, std::size_t count, std::size_t subs, std::size_t hole);
  void list_inner(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions, std::uint32_t elements);

  unsigned shift_ = 0;
  bool runs_ = false;  // subs_ lists where active sub-blocks begin and end, not each of them
  RiceList subs_;
  RiceList inner_;  // of the changes, or of what does not change where that is less
  std::size_t active_count_ = 0;
  Scratch<std::uint16_t> active_;
  Scratch<std::uint16_t> bounds_;
  Scratch<std::uint16_t> filled_;
  Scratch<std::uint16_t> inner_positions_;
};

// Reads hostile bytes, in the order in which they are written.
class TwoLevelReader {
 public:
  // False if the head is invalid.
  bool read_head(std::span<const std::byte>& payload, std::uint32_t elements, std::size_t count);
  bool read_planes(const kernels::ListKernels& kernels, BitCursor& bits);
  // Writes the positions (room for kPositionSlack more).
  bool read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint16_t* positions);

 private:
  bool read_subs(const kernels::ListKernels& kernels, BitCursor& bits);
  std::size_t expand_runs(std::size_t subs);

  std::uint32_t elements_ = 0;
  std::size_t count_ = 0;
  unsigned shift_ = 0;
  bool runs_ = false;
  bool inverted_ = false;
  std::size_t listed_ = 0;        // sub-blocks, or their bounds
  std::uint32_t inner_span_ = 0;  // elements of the active sub-blocks
  RiceListReader subs_;
  RiceListReader inner_;
  Scratch<std::uint16_t> bounds_;
  Scratch<std::uint16_t> unchanged_;
  Scratch<std::uint16_t> moves_;  // of each active sub-block: from its place among these to its place in the block
};

}  // namespace sparcl::codec
