#pragma once
// Block routine of the cast: a tile of float32 is read once, and written as smaller floats.

#include "kernels/cuda/cast_work.hpp"
#include "kernels/cuda/ordered_compaction.cuh"
#include "kernels/cuda/small_float.cuh"

namespace sparcl::kernels::cuda {

struct alignas(16) Floats4 {
  float x[4];
};
template <class Word>
struct alignas(kCastItems * sizeof(Word)) Words8 {
  Word x[kCastItems];
};

// All loads are issued before the first store, which might alias them.
template <class Small, class Word>
__device__ inline void cast_whole_tile(const Floats4* values, Words8<Word>* out) {
  Floats4 loaded[kCastLoads][2];
  SPARCL_UNROLL
  for (unsigned n = 0; n < kCastLoads; ++n) {
    loaded[n][0] = values[2 * (n * kThreads + threadIdx.x)];
    loaded[n][1] = values[2 * (n * kThreads + threadIdx.x) + 1];
  }
  SPARCL_UNROLL
  for (unsigned n = 0; n < kCastLoads; ++n) {
    Words8<Word> rounded;
    SPARCL_UNROLL
    for (unsigned i = 0; i < kCastItems; ++i)
      rounded.x[i] = static_cast<Word>(Small::narrow(loaded[n][i / 4].x[i % 4]));
    out[n * kThreads + threadIdx.x] = rounded;
  }
}

// Tile blockIdx.x.
template <class Small, class Word>
__device__ inline void cast_tile(const CastWork& work) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kCastTile, left = work.count - first;
  const float* const values = work.values + first;
  Word* const out = static_cast<Word*>(work.out) + first;
  const bool is_aligned =
      (reinterpret_cast<std::uintptr_t>(values) | reinterpret_cast<std::uintptr_t>(out)) % 16 == 0;
  if (left >= kCastTile && is_aligned)
    return cast_whole_tile<Small>(reinterpret_cast<const Floats4*>(values),
                                  reinterpret_cast<Words8<Word>*>(out));
  for (std::uint64_t i = threadIdx.x; i < left && i < kCastTile; i += kThreads)
    out[i] = static_cast<Word>(Small::narrow(values[i]));
}

}  // namespace sparcl::kernels::cuda
