#pragma once
// Modes flat_group, two_level_group and block_sparse, the sender's side. Neighbouring blocks with
// few changes share one section, one list of positions and one of steps. Thousands of changes then
// share the overhead of a section, where a single block may have ten.

#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/block_mode.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

// The changes of a full group. Its overhead is then 0.1 to 0.5 % of the bytes, and its arrays are
// still in the cache. With 16,384 changes, 1 % of bf16 are encoded and applied 5 % more slowly.
constexpr std::size_t kFullGroup = 8192;

class GroupEncoder {
 public:
  explicit GroupEncoder(const kernels::KernelSet& kernels) : kernels_(kernels) {}

  struct Part {  // a block of the group
    std::uint64_t index;
    std::size_t first;  // index of its first change in the group
    std::size_t count;
  };

  bool empty() const { return parts_.empty(); }
  std::span<const Part> parts() const { return parts_; }
  std::uint64_t first_block() const { return parts_.front().index; }
  std::uint64_t last_block() const { return parts_.back().index; }

  // May a block of the same run with this many changes be added? The first block may have up to
  // kMaxGroupChanges.
  bool has_room(std::uint64_t index, std::size_t count) const {
    return empty() || (index - first_block() < kMaxGroupBlocks && count_ + count <= kFullGroup);
  }
  // Blocks are added in order; `changes` have at most kMaxGroupChanges.
  void add(std::uint64_t index, const BlockChanges& changes);
  void clear();

  // Chooses between flat, two levels and sub-blocks (`only`: the requested mode). Returns the bytes
  // of the payload, or kCannot if the single blocks are likely to be smaller. `elements`: of the
  // blocks from the first to the last.
  std::size_t plan(std::uint32_t elements, const BlockMode* only, bool thorough);
  const BlockMode& mode() const { return *mode_; }
  // Writes the bytes that plan() announced.
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
  std::uint64_t bits_alone_ = 0;          // estimated bits of the positions in blocks coded alone
  std::vector<std::uint16_t> positions_;  // in their blocks
  std::vector<std::uint32_t> in_group_;   // the same, counted from the first block
  std::vector<std::byte> old_values_;
  std::vector<std::byte> new_values_;

  RiceList list_;
  BasicTwoLevelList<std::uint32_t> two_level_;
  StepList steps_;
  BlockSparseList block_sparse_;
  const BlockMode* mode_ = &kFlatGroupMode;
};

}  // namespace sparcl::codec
