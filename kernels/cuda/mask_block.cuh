#pragma once
// Block routines for masks: a block of threads takes a part of the positions, or, for a mask of
// runs, a tile of the packed values.

#include "kernels/cuda/device_work.hpp"
#include "kernels/cuda/wide_loads.cuh"

namespace sparcl::kernels::cuda {

// Units of a thread that are in flight at once. Heuristic: if a mask has 1 % of a block, a thread
// has no more units than these.
constexpr unsigned kMaskItems = 4;

// For a thread's units of [begin, end): packed[i] = array[place_of(i)], or the inverse. All loads
// come before the first store, because compilers cannot know that the arrays do not overlap. Beyond
// the end the first unit is loaded again, which avoids a branch.
template <bool kGathers, class Unit, class PlaceOf>
__device__ inline void move_units(const MaskWork& work, std::uint64_t begin, std::uint64_t end,
                                  PlaceOf place_of) {
  Unit* const array = static_cast<Unit*>(work.array);
  Unit* const packed = static_cast<Unit*>(work.packed);
  for (std::uint64_t i = begin + threadIdx.x; i < end; i += kMaskItems * kThreads) {
    const auto at = [=](unsigned n) { return i + n * kThreads < end ? i + n * kThreads : i; };
    std::uint64_t places[kMaskItems];
    Unit moved[kMaskItems];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kMaskItems; ++n) places[n] = place_of(at(n));
    SPARCL_UNROLL
    for (unsigned n = 0; n < kMaskItems; ++n)
      moved[n] = kGathers ? array[places[n]] : packed[at(n)];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kMaskItems; ++n) {
      if (i + n * kThreads < end) (kGathers ? packed[at(n)] : array[places[n]]) = moved[n];
    }
  }
}

// Runs for part blockIdx.x of the positions.
template <bool kGathers, class Word>
__device__ inline void move_positions(const MaskWork& work) {
  const MaskPart part = work.places.parts[blockIdx.x];
  const std::uint64_t end = work.places.parts[blockIdx.x + 1].begin,
                      block = part.block * kBlockElements;
  const std::uint16_t* const positions = work.places.positions;
  move_units<kGathers, Word>(work, part.begin, end,
                             [=](std::uint64_t i) { return block + positions[i]; });
}

// Handles `count` units of runs of `length` units, from packed unit `first` on; at most a tile. One
// long division for each thread: within a tile 32 bits are enough, because a longer run ends at
// most once in it.
template <bool kGathers, class Unit>
__device__ inline void move_runs(const MaskWork& work, std::uint64_t first, std::uint32_t count,
                                 std::uint64_t length) {
  if (count == 0) return;
  const std::uint64_t first_run = first / length, offset = first - first_run * length;
  const std::uint64_t* const runs = work.places.runs + first_run;
  const bool is_short = length < (std::uint64_t{1} << 31);
  move_units<kGathers, Unit>(work, first, first + count, [=](std::uint64_t i) {
    const std::uint64_t place = offset + (i - first);
    const std::uint64_t before =
        is_short ? static_cast<std::uint32_t>(place) / static_cast<std::uint32_t>(length)
                 : (place >= length ? 1 : 0);
    return runs[before] * length + (place - before * length);
  });
}

// Handles tile blockIdx.x of runs. Uses 16 bytes at a time if all runs are multiples of 16 bytes,
// except for the end of the last run if the array cuts it.
template <bool kGathers, class Word>
__device__ inline void move_tile(const MaskWork& work) {
  constexpr std::uint32_t kInVector = sizeof(Vector16) / sizeof(Word);
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kTileElements,
                      length = work.places.run_elements;
  const std::uint64_t left = work.places.count - first;
  const std::uint32_t count =
      left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements;
  const bool has_vectors =
      length % kInVector == 0 && is_aligned16(work.array) && is_aligned16(work.packed);
  const std::uint32_t rest = has_vectors ? count % kInVector : count;
  if (has_vectors)
    move_runs<kGathers, Vector16>(work, first / kInVector, count / kInVector, length / kInVector);
  move_runs<kGathers, Word>(work, first + count - rest, rest, length);
}

template <bool kGathers, class Word>
__device__ inline void move_mask_block(const MaskWork& work) {
  if (work.places.run_elements == 0)
    move_positions<kGathers, Word>(work);
  else
    move_tile<kGathers, Word>(work);
}

template <class Word>
__device__ inline void gather_mask_block(const MaskWork& work) {
  move_mask_block<true, Word>(work);
}
template <class Word>
__device__ inline void scatter_mask_block(const MaskWork& work) {
  move_mask_block<false, Word>(work);
}

}  // namespace sparcl::kernels::cuda
