#pragma once
// Block routine that takes all elements above a threshold, in one pass, as top-k does with its
// guess (top_k_steps.cuh).

#include "kernels/cuda/accumulate_tile.cuh"
#include "kernels/cuda/threshold_work.hpp"

namespace sparcl::kernels::cuda {

template <TopKType kType>
__device__ inline void take_large_tile(CompactionShared& shared, const LargeWork& work) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  const std::uint32_t tile = take_tile(shared, work.next_tile);
  const std::uint64_t first = std::uint64_t{tile} * kTileElements, left = work.count - first;
  accumulate_tile<kType>(shared, work.values, work.residual, first,
                         left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements,
                         work.least);
  __syncthreads();
  std::uint32_t total = 0;
  const std::uint32_t own_before = sum_before(shared, own_marks(shared), &total);
  const std::uint64_t before = sum_of_tiles_before(shared, work.states, tile, total);
  if (threadIdx.x == 0 && left <= kTileElements) *work.found = before + total;
  for_each_mark(shared, before + own_before, [&](std::uint64_t number, unsigned element) {
    if (number >= work.capacity) return;
    const std::uint64_t index = first + element;
    work.indices[number] = index;
    if (work.taken != nullptr)
      static_cast<Accumulator*>(work.taken)[number] = E::left(work.values, work.residual, index);
    if (work.clear_sent && work.residual != nullptr)
      static_cast<Accumulator*>(work.residual)[index] = 0;
  });
}

}  // namespace sparcl::kernels::cuda
