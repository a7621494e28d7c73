#pragma once
// Block routine of diff: marks, numbers and writes the differing elements of one tile of both
// arrays.

#include "kernels/cuda/diff_marks.cuh"

namespace sparcl::kernels::cuda {

constexpr unsigned kListItems = 4;
constexpr unsigned kListed =
    kListItems * kThreads;  // marks that are listed at a time: 6 % of a tile

struct DiffShared : CompactionShared {
  std::uint16_t listed[kListed];
};

// listed[n - begin] = the element of mark n, if there is room for it. own_before: marks of the
// earlier threads.
__device__ inline void list_marks(DiffShared& shared, std::uint32_t own_before,
                                  std::uint32_t begin) {
  if (own_before >= begin + kListed) return;
  for_each_mark(shared, own_before, [&](std::uint64_t number, unsigned element) {
    const std::uint32_t place =
        static_cast<std::uint32_t>(number) - begin;  // wraps around below it
    if (place < kListed) shared.listed[place] = static_cast<std::uint16_t>(element);
  });
}

// Stores the listed elements, kListItems a thread, neighbours side by side. All loads are issued
// before the first store, which might alias them.
template <class Word>
struct ListedValues {
  std::uint16_t elements[kListItems];
  Word old_values[kListItems], new_values[kListItems];

  __device__ void load(const DiffShared& shared, const Word* base, const Word* target,
                       std::uint32_t count) {
    SPARCL_UNROLL
    for (unsigned n = 0; n < kListItems; ++n) {
      const unsigned place = n * kThreads + threadIdx.x;
      if (place >= count) continue;
      elements[n] = shared.listed[place];
      old_values[n] = base[elements[n]];
      new_values[n] = target[elements[n]];
    }
  }
  // number: of the first element. first: of the tile, in its block.
  __device__ void store(const DiffWork& work, std::uint64_t number, std::uint32_t first,
                        std::uint32_t count) const {
    SPARCL_UNROLL
    for (unsigned n = 0; n < kListItems; ++n) {
      const unsigned place = n * kThreads + threadIdx.x;
      if (place >= count || number + place >= work.capacity) continue;
      work.changes.positions[number + place] = static_cast<std::uint16_t>(first + elements[n]);
      static_cast<Word*>(work.changes.old_values)[number + place] = old_values[n];
      static_cast<Word*>(work.changes.new_values)[number + place] = new_values[n];
    }
  }
};

template <class Word, class IsWanted = IsAny>
__device__ inline void diff_tile(DiffShared& shared, const DiffWork& work,
                                 IsWanted is_wanted = {}) {
  const std::uint32_t tile = take_tile(shared, work.next_tile);
  const std::uint64_t first = std::uint64_t{tile} * kTileElements;
  const Word* const base = static_cast<const Word*>(work.base) + first;
  const Word* const target = static_cast<const Word*>(work.target) + first;
  const std::uint64_t left = work.count - first;
  mark_differing(shared, base, target,
                 left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements,
                 is_wanted);
  __syncthreads();

  std::uint32_t total = 0;
  const std::uint32_t own_before = sum_before(shared, own_marks(shared), &total);
  list_marks(shared, own_before, 0);
  __syncthreads();
  ListedValues<Word> values;
  values.load(shared, base, target,
              total);  // in flight while this block waits for the tiles before
  const std::uint64_t before = sum_of_tiles_before(shared, work.states, tile, total);
  if (threadIdx.x == 0) {
    if (first % kBlockElements == 0) work.changes.block_starts[first / kBlockElements] = before;
    if (left <= kTileElements) work.changes.block_starts[block_count(work.count)] = before + total;
  }
  const auto in_block = static_cast<std::uint32_t>(first % kBlockElements);
  values.store(work, before, in_block, total);
  for (std::uint32_t begin = kListed; begin < total; begin += kListed) {
    __syncthreads();
    list_marks(shared, own_before, begin);
    __syncthreads();
    values.load(shared, base, target, total - begin);
    values.store(work, before + begin, in_block, total - begin);
  }
}

}  // namespace sparcl::kernels::cuda
