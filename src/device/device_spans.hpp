#pragma once
// Blocks of arrays in device memory in the form that kernels take: contiguous elements. Blocks of
// several small arrays are gathered into one buffer, and scattered again.

#include <algorithm>
#include <span>
#include <vector>

#include "src/codec/block_map.hpp"
#include "src/codec/superblock.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

// Neighbouring blocks of one type.
struct BlockSpan {
  std::uint64_t first_block = 0, end_block = 0;
  std::uint64_t elements = 0;
  DataType type = DataType::kUint8;
  bool is_gathered = false;  // they belong to several arrays; otherwise all to this one:
  std::uint32_t array = 0;
  std::uint64_t first_element = 0;

  std::uint64_t block_count() const { return end_block - first_block; }
};

class DeviceSpans {
 public:
  static constexpr std::uint64_t kGatheredBlocks =
      codec::kSuperBlocks;  // at once: some MiB of room

  explicit DeviceSpans(const codec::BlockMap& map);

  const codec::BlockMap& map() const { return map_; }
  std::size_t max_width() const { return max_width_; }  // of an element
  // The size of the buffer for gather().
  std::size_t gathered_bytes() const { return gathered_bytes_; }

  // The blocks from `block` on that kernels can handle at once, at most max_blocks.
  BlockSpan span_at(std::uint64_t block, std::uint64_t max_blocks);
  // The same, but at least the blocks below `last`, at most kGatheredBlocks; gathered if necessary.
  BlockSpan span_over(std::uint64_t block, std::uint64_t last, std::uint64_t max_blocks);
  // The same, with whole superblocks (superblock.hpp), except for one that contains `block`. At
  // least one superblock, gathered if it belongs to several arrays. max_blocks: at least a
  // superblock's.
  BlockSpan span_of_superblocks(std::uint64_t block, std::uint64_t max_blocks);
  // The first blocks of a span.
  BlockSpan cut(const BlockSpan& span, std::uint64_t end_block) const;

  // The address of the elements of a span that is not gathered.
  template <class Byte>
  static Byte* elements_of(const BlockSpan& span, std::span<Byte* const> arrays) {
    return arrays[span.array] + span.first_element * element_bytes(span.type);
  }
  // Both enqueue, inside the stream's context.
  Status gather(const BlockSpan& span, std::span<const std::byte* const> arrays, std::byte* to,
                void* stream);
  Status scatter(const BlockSpan& span, const std::byte* from, std::span<std::byte* const> arrays,
                 void* stream);

  // Calls visit(array, byte in the array, bytes, byte in the blocks) for each piece of the blocks
  // [first, end) of a run.
  template <class Visit>
  Status for_pieces(std::uint64_t first, std::uint64_t end, const Visit& visit);

 private:
  const codec::BlockMap& map_;
  std::size_t max_width_ = 1;
  std::size_t gathered_bytes_ = 0;
  std::vector<codec::Piece> pieces_;  // of a block
};

template <class Visit>
Status DeviceSpans::for_pieces(std::uint64_t first, std::uint64_t end, const Visit& visit) {
  std::uint32_t array = 0;
  std::uint64_t at = 0, bytes = 0, to = 0;  // of a piece that may continue in the next block
  for (std::uint64_t block = first; block < end; ++block) {
    const std::size_t width = element_bytes(map_.block(block, pieces_));
    for (const codec::Piece& piece : pieces_) {
      const std::uint64_t begin = piece.first * width, size = piece.count * width;
      if (bytes > 0 && piece.array == array && begin == at + bytes) {
        bytes += size;
        continue;
      }
      if (bytes > 0) SPARCL_RETURN_IF_ERROR(visit(array, at, static_cast<std::size_t>(bytes), to));
      to = ((block - first) * codec::kBlockElements + piece.offset) * width;
      array = piece.array, at = begin, bytes = size;
    }
  }
  return bytes > 0 ? visit(array, at, static_cast<std::size_t>(bytes), to) : Status();
}

}  // namespace sparcl::device
