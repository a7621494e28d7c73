#include "src/device/device_spans.hpp"

namespace sparcl::device {

DeviceSpans::DeviceSpans(const codec::BlockMap& map) : map_(map) {
  const auto arrays = map.arrays();
  pieces_.reserve(arrays.size());
  for (const codec::ArraySpec& array : arrays)
    max_width_ = std::max(max_width_, element_bytes(array.datatype));
  const std::uint64_t elements =
      std::min(map.element_count(), kGatheredBlocks * codec::kBlockElements);
  if (arrays.size() > 1) gathered_bytes_ = static_cast<std::size_t>(elements) * max_width_;
}

BlockSpan DeviceSpans::span_at(std::uint64_t block, std::uint64_t max_blocks) {
  BlockSpan span;
  span.first_block = block;
  span.type = map_.block(block, pieces_);
  span.is_gathered = pieces_.size() > 1;
  const codec::BlockMap::BlockRun run = map_.run_of(block);
  std::uint64_t end = block + 1;
  if (span.is_gathered) {
    const std::uint64_t most = std::min(run.end(), block + std::min(max_blocks, kGatheredBlocks));
    while (end < most && (map_.block(end, pieces_), pieces_.size() > 1)) ++end;
  } else {
    span.array = pieces_[0].array;
    span.first_element = pieces_[0].first;
    const std::uint64_t left = map_.arrays()[span.array].count - span.first_element;
    const bool is_last =
        run.elements(block, run.end()) == left;  // of the run: its last block is no other's, too
    end = std::min(is_last ? run.end() : block + left / codec::kBlockElements, block + max_blocks);
  }
  return cut(span, end);
}

BlockSpan DeviceSpans::span_over(std::uint64_t block, std::uint64_t last,
                                 std::uint64_t max_blocks) {
  BlockSpan span = span_at(block, max_blocks);
  if (span.end_block >= last) return span;
  span.is_gathered = true;
  return cut(span, last);
}

BlockSpan DeviceSpans::span_of_superblocks(std::uint64_t block, std::uint64_t max_blocks) {
  const codec::BlockMap::BlockRun run = map_.run_of(block);
  const auto whole = [&](std::uint64_t end) {
    return end == run.end() ? end
                            : run.first_block + (end - run.first_block) / codec::kSuperBlocks *
                                                    codec::kSuperBlocks;
  };
  const std::uint64_t least = std::min(whole(block + codec::kSuperBlocks), run.end());
  const BlockSpan span = span_over(block, least, max_blocks);
  return cut(span, std::max(least, whole(span.end_block)));
}

BlockSpan DeviceSpans::cut(const BlockSpan& span, std::uint64_t end_block) const {
  BlockSpan made = span;
  made.end_block = end_block;
  made.elements = map_.run_of(span.first_block).elements(span.first_block, end_block);
  return made;
}

Status DeviceSpans::gather(const BlockSpan& span, std::span<const std::byte* const> arrays,
                           std::byte* to, void* stream) {
  return for_pieces(
      span.first_block, span.end_block,
      [&](std::uint32_t array, std::uint64_t at, std::size_t bytes, std::uint64_t place) {
        return gpu::enqueue_copy(to + place, arrays[array] + at, bytes, stream);
      });
}

Status DeviceSpans::scatter(const BlockSpan& span, const std::byte* from,
                            std::span<std::byte* const> arrays, void* stream) {
  return for_pieces(
      span.first_block, span.end_block,
      [&](std::uint32_t array, std::uint64_t at, std::size_t bytes, std::uint64_t place) {
        return gpu::enqueue_copy(arrays[array] + at, from + place, bytes, stream);
      });
}

}  // namespace sparcl::device
