#pragma once
// Block routine that prepares a block whose superblock may be coded in classes. It finds the number
// of elements of each class, the class and rank of each change, and the block's size without
// classes.

#include "kernels/cuda/class_source.cuh"
#include "kernels/cuda/class_strips.cuh"
#include "kernels/cuda/class_work.hpp"
#include "kernels/cuda/encode_block.cuh"

namespace sparcl::kernels::cuda {

struct ClassRankShared {
  EncodeShared encode;
  WideScanShared wide_scan;
  ClassStrips strips;
};

// Blocks [first, end), with their changes [first_change, end_change).
struct SuperSpan {
  std::uint32_t first, end;
  std::uint64_t first_change, end_change;

  __device__ std::uint32_t changes() const {
    return static_cast<std::uint32_t>(end_change - first_change);
  }
};
__device__ inline SuperSpan super_span(const ClassEncodeWork& work, std::uint32_t super) {
  const std::uint32_t first = work.first_block + kSuperBlocks * super, whole = first + kSuperBlocks;
  const std::uint32_t end = whole < work.end_block ? whole : work.end_block;
  return {first, end, work.changes.block_starts[first], work.changes.block_starts[end]};
}
// None of its changes is lost, and there are not too many.
__device__ inline bool may_be_in_classes(const SuperSpan& span, std::uint64_t capacity) {
  return span.end_change <= capacity && span.end_change > span.first_change &&
         span.end_change - span.first_change <= kMaxClassChanges;
}

__device__ inline std::uint32_t elements_in(std::uint64_t count, std::uint32_t block) {
  const std::uint64_t left = count - block * kBlockElements;
  return static_cast<std::uint32_t>(left < kBlockElements ? left : kBlockElements);
}

// The bytes of a section with its tag and length.
__device__ inline std::uint32_t section_bytes(std::uint32_t content) {
  return 1 + (content < 0x80 ? 1 : content < 0x4000 ? 2 : content < 0x200000 ? 3 : 4) + content;
}

// Runs for block work.first_block + blockIdx.x.
__device__ inline void rank_changes(ClassRankShared& shared, const ClassEncodeWork& work) {
  const SuperSpan span = super_span(work, blockIdx.x / kSuperBlocks);
  if (!may_be_in_classes(span, work.capacity)) return;
  const std::uint32_t number = work.first_block + blockIdx.x,
                      elements = elements_in(work.count, number);
  const auto* const array = static_cast<const std::uint16_t*>(work.base) + number * kBlockElements;
  const StripElements strips{array, elements, is_aligned16(array)};
  number_elements(shared.strips, shared.wide_scan, work.table.cut, strips);
  if (threadIdx.x < kMaxClasses)
    work.elements[number * kMaxClasses + threadIdx.x] = shared.strips.total[threadIdx.x];
  const std::uint64_t first = work.changes.block_starts[number],
                      end = work.changes.block_starts[number + 1];
  for (std::uint64_t i = first + threadIdx.x; i < end; i += kThreads) {
    const unsigned c =
        class_in(shared.strips, static_cast<const std::uint16_t*>(work.changes.old_values)[i]);
    work.keys[i] = c | rank_of_place(shared.strips, strips, c, work.changes.positions[i]) << 8;
  }
  if (first == end) {
    if (threadIdx.x != 0) return;
    work.section_bytes[number] = 0;
    work.hashes[number] = {};
    return;
  }
  const auto count = static_cast<std::uint32_t>(end - first);
  const BlockOfChanges<std::uint16_t> changes{
      {work.changes.positions + first, count, gap_divisor(elements, count)},
      static_cast<const std::uint16_t*>(work.changes.old_values) + first,
      static_cast<const std::uint16_t*>(work.changes.new_values) + first,
      true};
  auto* const halves =
      reinterpret_cast<std::uint16_t*>(work.ranks) + first;  // their list is not made yet
  const BlockContent content = plan_block(shared.encode, changes, elements,
                                          {work.listed + first, halves, halves + work.capacity});
  if (threadIdx.x != 0) return;
  work.section_bytes[number] =
      section_bytes(content.bytes + (content.mode == kDenseBlock ? 0 : kOldCheckBytes));
  work.hashes[number] = shared.encode.hashes;
}

}  // namespace sparcl::kernels::cuda
