#pragma once
// Block routines for masks: a block of threads takes a part of the positions, or a tile of the packed values where the mask is
// runs.

#include "kernels/cuda/device_work.hpp"

namespace sparcl::kernels::cuda {

// visit(packed, in the array) for the elements of part blockIdx.x.
template <class Visit>
__device__ inline void for_each_position(const MaskPlaces& places, Visit visit) {
  const MaskPart part = places.parts[blockIdx.x];
  const std::uint64_t end = places.parts[blockIdx.x + 1].begin, block = part.block * kBlockElements;
  for (std::uint64_t i = part.begin + threadIdx.x; i < end; i += kThreads) visit(i, block + places.positions[i]);
}

// The same for tile blockIdx.x of runs. One long division a thread: within a tile 32 bits are enough, as runs that are longer than
// that end at most once in it.
template <class Visit>
__device__ inline void for_each_of_runs(const MaskPlaces& places, Visit visit) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kTileElements, length = places.run_elements;
  const std::uint64_t first_run = first / length, offset = first - first_run * length;
  const std::uint64_t left = places.count - first;
  const std::uint32_t count = left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements;
  const bool is_short = length < (std::uint64_t{1} << 31);
  for (std::uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const std::uint64_t place = offset + i;
    const std::uint64_t runs =
        is_short ? static_cast<std::uint32_t>(place) / static_cast<std::uint32_t>(length) : (place >= length ? 1 : 0);
    visit(first + i, (places.runs[first_run + runs]) * length + (place - runs * length));
  }
}

template <class Visit>
__device__ inline void for_each_of_mask(const MaskPlaces& places, Visit visit) {
  if (places.run_elements == 0)
    for_each_position(places, visit);
  else
    for_each_of_runs(places, visit);
}

template <class Word>
__device__ inline void gather_mask_block(const MaskWork& work) {
  const Word* const array = static_cast<const Word*>(work.array);
  Word* const packed = static_cast<Word*>(work.packed);
  for_each_of_mask(work.places, [=](std::uint64_t i, std::uint64_t place) { packed[i] = array[place]; });
}

template <class Word>
__device__ inline void scatter_mask_block(const MaskWork& work) {
  Word* const array = static_cast<Word*>(work.array);
  const Word* const packed = static_cast<const Word*>(work.packed);
  for_each_of_mask(work.places, [=](std::uint64_t i, std::uint64_t place) { array[place] = packed[i]; });
}

}  // namespace sparcl::kernels::cuda
