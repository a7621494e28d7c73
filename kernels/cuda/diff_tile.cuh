#pragma once
// Block routine of diff: one tile of both arrays is read once, 16 bytes a load; what differs is marked, numbered and written out.

#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

struct alignas(16) Vector16 {
  std::uint32_t words[4];
};

// Bit i: whether element i of the two vectors differs.
template <class Word>
__device__ inline std::uint32_t differing(const Vector16& a, const Vector16& b) {
  constexpr unsigned kWidth = 8 * sizeof(Word);
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t x = a.words[i] ^ b.words[i];
    if constexpr (kWidth == 64) {
      if (x != 0) bits |= 1U << (i / 2);
    } else {
      for (unsigned part = 0; part < 32 / kWidth; ++part) {
        const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << kWidth) - 1) << (part * kWidth % 32);
        if ((x & mask) != 0) bits |= 1U << (i * (32 / kWidth) + part);
      }
    }
  }
  return bits;
}

template <class Word>
__device__ inline void mark_differing(CompactionShared& shared, const Word* base, const Word* target, std::uint32_t count) {
  constexpr unsigned kBits = 16 / sizeof(Word);
  const bool is_aligned = (reinterpret_cast<std::uintptr_t>(base) | reinterpret_cast<std::uintptr_t>(target)) % 16 == 0;
  if (count < kTileElements || !is_aligned) {
    return mark_each(shared, count, [=](unsigned i) { return base[i] != target[i]; });
  }
  const auto* const a = reinterpret_cast<const Vector16*>(base);
  const auto* const b = reinterpret_cast<const Vector16*>(target);
  for (unsigned i = threadIdx.x; i < kTileElements / kBits;
       i += 4 * kThreads) {  // eight loads are under way before the first is used
    Vector16 old_ones[4], new_ones[4];
    for (unsigned j = 0; j < 4; ++j) {
      old_ones[j] = a[i + j * kThreads];
      new_ones[j] = b[i + j * kThreads];
    }
    for (unsigned j = 0; j < 4; ++j) set_marks<kBits>(shared, i + j * kThreads, differing<Word>(old_ones[j], new_ones[j]));
  }
}

template <class Word>
__device__ inline void diff_tile(CompactionShared& shared, const DiffWork& work) {
  const std::uint32_t tile = take_tile(shared, work.next_tile);
  const std::uint64_t first = std::uint64_t{tile} * kTileElements;
  const Word* const base = static_cast<const Word*>(work.base) + first;
  const Word* const target = static_cast<const Word*>(work.target) + first;
  const std::uint64_t left = work.count - first;
  mark_differing<Word>(shared, base, target, left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements);
  __syncthreads();

  std::uint32_t total = 0;
  const std::uint32_t own_before = sum_before(shared, own_marks(shared), &total);
  const std::uint64_t before = sum_of_tiles_before(shared, work.states, tile, total);
  if (threadIdx.x == 0) {
    if (first % kBlockElements == 0) work.changes.block_starts[first / kBlockElements] = before;
    if (left <= kTileElements) work.changes.block_starts[block_count(work.count)] = before + total;
  }
  for_each_mark(shared, before + own_before, [&](std::uint64_t number, unsigned element) {
    if (number >= work.capacity) return;
    work.changes.positions[number] = static_cast<std::uint16_t>((first + element) % kBlockElements);
    static_cast<Word*>(work.changes.old_values)[number] = base[element];
    static_cast<Word*>(work.changes.new_values)[number] = target[element];
  });
}

}  // namespace sparcl::kernels::cuda
