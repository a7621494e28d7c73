#pragma once
// A part: the entries of a sparse vector in a run of blocks, as one message between the ranks of a
// call. It is not a file format: both sides run the same version. All numbers are little endian.
//
// - head: u64 bytes of the part, u64 blocks, u64 entries, u64 offset of the values
// - positions: for each block a u16 for each entry, the low bits of its index, ascending; or a bit
//   for each of its elements
// - values: of all entries, at a multiple of 8 bytes
// - block heads: a u64 for each block that has entries:
//   block * 2^17 + (1 for a bitmap) * 2^16 + entries - 1; blocks count from the run's first, and
//   ascend
//
// The heads come last, and there may be a gap between positions and values, so that sums are
// written directly into the buffer that is sent.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/buffer_source.hpp"

namespace sparcl::sparse {

// A run of blocks of the index space. Blocks have the size 2^block_log2 <= 2^16, so that a u16
// identifies every element of a block.
struct BlockRun {
  std::uint64_t first = 0;  // block
  std::uint64_t blocks = 0;
  unsigned block_log2 = 16;
  unsigned position_share_log2 =
      4;  // a block with more than 1 / 2^this of its elements is a bitmap: 4 is the shortest

  std::uint64_t first_index() const { return first << block_log2; }
  std::uint64_t end_index() const { return (first + blocks) << block_log2; }
  std::uint32_t block_elements() const { return std::uint32_t{1} << block_log2; }
  std::uint32_t max_positions() const { return block_elements() >> position_share_log2; }
  // The index from which positions of a block count, and the position of the block's first element.
  std::uint64_t base_of(std::uint64_t block) const {
    return ((first + block) << block_log2) & ~std::uint64_t{0xffff};
  }
  std::uint32_t first_position(std::uint64_t block) const {
    return ((first + block) << block_log2) & 0xffff;
  }
};

constexpr std::size_t kPartHeadBytes = 32;
constexpr std::uint64_t kMaxSparseCount = std::uint64_t{1}
                                          << 63;  // elements: limits the number of blocks

struct BlockHead {
  std::uint64_t bits = 0;

  static BlockHead of(std::uint64_t block, std::size_t entries, bool is_bitmap) {
    return {block << 17 | std::uint64_t{is_bitmap} << 16 | (entries - 1)};
  }
  std::uint64_t block() const { return bits >> 17; }
  bool is_bitmap() const { return (bits >> 16 & 1) != 0; }
  std::size_t entries() const { return (bits & 0xffff) + 1; }
};

// The bytes of a part, read from its first kPartHeadBytes bytes.
std::uint64_t part_bytes(const std::byte* head);

// Upper bound of the bytes of a part with this many entries.
std::uint64_t max_part_bytes(const BlockRun& run, std::uint64_t entries, std::size_t value_bytes);

// The number of ascending `indices` below `end`; fast if it is small.
std::size_t count_below(std::span<const std::uint64_t> indices, std::uint64_t end);

// Writes entries whose indices ascend strictly and lie in the run.
Buffer write_part(BufferSource& buffers, const kernels::KernelSet& kernels, const BlockRun& run,
                  std::span<const std::uint64_t> indices, const std::byte* values,
                  std::size_t value_bytes);

// A part with the positions of `part`, which is valid, and room for values of another width, at
// `values`.
Buffer with_room(BufferSource& buffers, std::span<const std::byte> part, std::size_t value_bytes,
                 std::size_t new_bytes, std::byte*& values);

// Writes a part block by block, ascending.
class PartWriter {
 public:
  // entries: at most this many are added.
  PartWriter(BufferSource& buffers, const kernels::KernelSet& kernels, const BlockRun& run,
             std::size_t value_bytes, std::size_t max_entries, std::size_t max_blocks);

  // Room for the next block's entries; end() adds some of them. The positions have kEntrySlack more
  // entries of room.
  std::byte* places() const { return part_.data() + places_end_; }
  std::byte* values() const { return part_.data() + values_at_ + entries_ * value_bytes_; }
  // is_marked: the positions are a bit for each element.
  void end(std::uint64_t block, std::size_t entries, bool is_marked);

  Buffer finish();

 private:
  const kernels::KernelSet& kernels_;
  BlockRun run_;
  std::size_t value_bytes_;
  Buffer part_;
  std::size_t values_at_;
  std::size_t places_end_ = kPartHeadBytes;
  std::size_t entries_ = 0;
  std::vector<BlockHead> heads_;
};

// A received part: all of it is in bounds, but positions may not ascend.
class PartView {
 public:
  // nullopt if the bytes are no part of this run.
  static std::optional<PartView> read(const kernels::KernelSet& kernels,
                                      std::span<const std::byte> bytes, const BlockRun& run,
                                      std::size_t value_bytes);

  std::size_t entries() const { return entries_; }
  std::size_t blocks() const { return blocks_; }
  const std::byte* values() const { return values_; }

  // Iterates over the blocks.
  bool at_end() const { return at_ == blocks_; }
  std::uint64_t block() const { return head().block(); }
  std::size_t block_entries() const { return head().entries(); }
  bool is_bitmap() const { return head().is_bitmap(); }
  const std::byte* places() const {
    return places_ + place_bytes_before_;
  }  // of the block, as positions or as a bitmap
  // The positions of the block's entries. scratch: room for a block's and kEntrySlack, used if they
  // are a bitmap.
  const std::uint16_t* positions(const kernels::KernelSet& kernels, std::uint16_t* scratch) const;
  const std::byte* block_values() const { return values_ + entries_before_ * value_bytes_; }
  void next();

 private:
  BlockHead head() const;

  BlockRun run_;
  std::size_t value_bytes_ = 0;
  std::size_t blocks_ = 0, entries_ = 0;
  const std::byte* heads_ = nullptr;
  const std::byte* places_ = nullptr;
  const std::byte* values_ = nullptr;
  std::size_t at_ = 0, entries_before_ = 0, place_bytes_before_ = 0;
};

}  // namespace sparcl::sparse
