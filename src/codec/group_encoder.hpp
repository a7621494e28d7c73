#pragma once
// Modes flat_group, two_level_group and block_sparse, the sender's side: neighbouring blocks of
// which few elements change share one section, one list of positions and one of steps. What a
// section costs is then shared by thousands of changes, where a block may have ten.

#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/block_mode.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

// When a group is full: what it costs is then shared well enough (0.1 to 0.5 % of it), and its
// arrays are still in the cache (with 16,384 changes 1 % of bf16 are encoded and applied 5 % more
// slowly).
constexpr std::size_t kFullGroup = 8192;

class GroupEncoder {
 public:
  explicit GroupEncoder(const kernels::KernelSet& kernels) : kernels_(kernels) {}

  struct Part {  // a block of it
    std::uint64_t index;
    std::size_t first;  // of its changes among all
    std::size_t count;
  };

  bool empty() const { return parts_.empty(); }
  std::span<const Part> parts() const { return parts_; }
  std::uint64_t first_block() const { return parts_.front().index; }
  std::uint64_t last_block() const { return parts_.back().index; }

  // May a block of the same run with so many changes be added? Any one with up to kMaxGroupChanges
  // may be the first.
  bool has_room(std::uint64_t index, std::size_t count) const {
    return empty() || (index - first_block() < kMaxGroupBlocks && count_ + count <= kFullGroup);
  }
  // Blocks are added in order; `changes` have at most kMaxGroupChanges.
  void add(std::uint64_t index, const BlockChanges& changes);
  void clear();

  // Chooses between flat, two levels and sub-blocks (`only`: the one that is asked for) and returns
  // the bytes of the payload; kCannot where the blocks by themselves are likely to be smaller.
  // `elements` of the blocks from the first to the last.
  std::size_t plan(std::uint32_t elements, const BlockMode* only, bool thorough);
  const BlockMode& mode() const { return *mode_; }
  // What plan() said that it takes.
  void write(std::byte* out) const;

  std::size_t count() const { return count_; }
  std::span<const std::uint16_t> positions(const Part& part) const {
    return {positions_.data() + part.first, part.count};
  }
  std::span<const std::byte> old_values(const Part& part) const {
    return values(old_values_, part);
  }
  std::span<const std::byte> new_values(const Part& part) const {
    return values(new_values_, part);
  }

 private:
  void choose_list(std::span<const std::uint32_t> positions, std::uint32_t elements,
                   const BlockMode* only, bool thorough);
  std::size_t list_head_bytes() const;
  std::uint64_t list_bits() const;
  template <class List>
  void write_lists(const List& list, std::byte* out) const;

  std::span<const std::byte> values(const std::vector<std::byte>& all, const Part& part) const {
    return {all.data() + part.first * width_, part.count * width_};
  }

  const kernels::KernelSet& kernels_;
  std::vector<Part> parts_;
  DataType datatype_ = DataType::kUint8;
  std::size_t width_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bits_alone_ = 0;  // about what the positions would take in blocks by themselves
  std::vector<std::uint16_t> positions_;  // in their blocks
  std::vector<std::uint32_t> in_group_;   // the same from the first block on
  std::vector<std::byte> old_values_;
  std::vector<std::byte> new_values_;

  RiceList list_;
  BasicTwoLevelList<std::uint32_t> two_level_;
  StepList steps_;
  BlockSparseList block_sparse_;
  const BlockMode* mode_ = &kFlatGroupMode;
};

}  // namespace sparcl::codec
