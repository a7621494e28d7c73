#pragma once
// The blocks of arrays that are in device memory, as kernels take them: elements that lie in one
// piece. Blocks of several small arrays are brought to one place, and back.

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
  bool is_gathered = false;  // they are of several arrays; else all of this one:
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
  // Room for what gather() brings together.
  std::size_t gathered_bytes() const { return gathered_bytes_; }

  // The blocks from `block` on that kernels can take at once, max_blocks at most.
  BlockSpan span_at(std::uint64_t block, std::uint64_t max_blocks);
  // The same, and at least those below `last`, which are at most kGatheredBlocks: brought together
  // where they have to be.
  BlockSpan span_over(std::uint64_t block, std::uint64_t last, std::uint64_t max_blocks);
  // The same, and superblocks (superblock.hpp) that `block` is not inside of are whole: at least
  // one, brought together where it is of several arrays. max_blocks: a superblock's at least.
  BlockSpan span_of_superblocks(std::uint64_t block, std::uint64_t max_blocks);
  // Of a span its first blocks.
  BlockSpan cut(const BlockSpan& span, std::uint64_t end_block) const;

  // Where a span's elements are that are not gathered.
  template <class Byte>
  static Byte* elements_of(const BlockSpan& span, std::span<Byte* const> arrays) {
    return arrays[span.array] + span.first_element * element_bytes(span.type);
  }
  // Both enqueue, inside the stream's context.
  Status gather(const BlockSpan& span, std::span<const std::byte* const> arrays, std::byte* to,
                void* stream);
  Status scatter(const BlockSpan& span, const std::byte* from, std::span<std::byte* const> arrays,
                 void* stream);

  // visit(array, byte in it, bytes, byte in the blocks) for each piece of the blocks [first, end)
  // of a run.
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
  std::uint64_t at = 0, bytes = 0, to = 0;  // of a piece that may go on in the next block
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
