#pragma once
// Ordered stream compaction in one pass over memory. The elements that a tile takes are marked bit
// by bit in shared memory. Their offset in the output comes from the tiles before by decoupled
// look-back (Merrill & Garland, "Single-pass parallel prefix scan with decoupled look-back", NVIDIA
// 2016). These block routines use only the device language, so that tests run them on the host as
// well (tests/emulated/emulated_cuda.hpp).

#include "kernels/cuda/thread_sums.cuh"

namespace sparcl::kernels::cuda {

#ifdef __CUDACC__
__device__ inline bool wait_a_little() {
  __nanosleep(20);
  return true;
}
#endif

constexpr unsigned kMarkWords = kTileElements / 32;
static_assert(kMarkWords == 2 * kThreads, "each thread owns two words of marks");

enum TileFlag : std::uint64_t {
  kNothing = 0,
  kOwnSum = 1,
  kSumSoFar = 2
};  // the sum covers only the tile, or all tiles up to it
__device__ inline TileState tile_state(std::uint64_t sum, TileFlag flag) { return sum << 2 | flag; }

struct ScanShared {
  std::uint32_t warp_sums[kThreads / kWarp];
  std::uint64_t before;  // in all tiles before this one
  std::uint32_t tile;
};

struct CompactionShared : ScanShared {
  std::uint32_t marks[kMarkWords];
};

// Tiles are numbered in the order in which their blocks begin, not by blockIdx. Every earlier tile
// has therefore begun, so that the wait ends.
__device__ inline std::uint32_t take_tile(ScanShared& shared, std::uint32_t* next_tile) {
  if (threadIdx.x == 0) shared.tile = atomicAdd(next_tile, 1U);
  __syncthreads();
  return shared.tile;
}

// The sum over all threads before this one; total: over all threads. Contains barriers.
// shared.warp_sums: one Sum for each warp.
template <class Shared, class Sum>
__device__ inline Sum sum_before(Shared& shared, Sum own, Sum* total) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  Sum sum = own;
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const Sum other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // warp_sums of the previous call have been read
  if (lane == kWarp - 1) shared.warp_sums[warp] = sum;
  __syncthreads();
  Sum before = 0, all = 0;
  for (unsigned w = 0; w < kThreads / kWarp; ++w) {
    if (w < warp) before += shared.warp_sums[w];
    all += shared.warp_sums[w];
  }
  *total = all;
  return before + sum - own;
}

// The sum of all tiles before this one. states: a word for each tile, zeros before the launch. All
// threads call it and get the result.
__device__ inline std::uint64_t sum_of_tiles_before(ScanShared& shared, TileState* states,
                                                    std::uint32_t tile, std::uint32_t own) {
  if (threadIdx.x < kWarp) {
    const unsigned lane = threadIdx.x;
    volatile TileState* const seen = states;  // other blocks write while this block waits
    if (lane == 0 && tile != 0) seen[tile] = tile_state(own, kOwnSum);
    std::uint64_t before = 0;
    for (std::uint32_t end = tile; end > 0;) {  // 32 tiles at a time, the nearest first
      TileState state = tile_state(0, kSumSoFar);
      if (lane < end) {
        do state = seen[end - 1 - lane];
        while (__builtin_expect((state & 3) == kNothing, 0) && wait_a_little());
      }
      const std::uint32_t whole = __ballot_sync(kAllLanes, (state & 3) == kSumSoFar);
      const unsigned nearest =
          whole == 0 ? kWarp : static_cast<unsigned>(__ffs(static_cast<int>(whole)) - 1);
      std::uint64_t sum = lane <= nearest ? state >> 2 : 0;
      for (unsigned step = kWarp / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(kAllLanes, sum, step);
      before += __shfl_sync(kAllLanes, sum, 0);
      if (whole != 0) break;
      end -= kWarp;
    }
    if (lane == 0) {
      seen[tile] = tile_state(before + own, kSumSoFar);
      shared.before = before;
    }
  }
  __syncthreads();
  return shared.before;
}

// Calls emit(number, element) for the marks that a thread owns, ascending; element is the index in
// the tile, and numbers continue from `number`.
template <class Emit>
__device__ inline void for_each_mark(const CompactionShared& shared, std::uint64_t number,
                                     Emit emit) {
  for (unsigned w = 2 * threadIdx.x; w < 2 * threadIdx.x + 2; ++w) {
    for (std::uint32_t bits = shared.marks[w]; bits != 0; bits &= bits - 1) {
      emit(number++, w * 32 + static_cast<unsigned>(__ffs(static_cast<int>(bits)) - 1));
    }
  }
}
__device__ inline std::uint32_t own_marks(const CompactionShared& shared) {
  return static_cast<std::uint32_t>(__popc(shared.marks[2 * threadIdx.x]) +
                                    __popc(shared.marks[2 * threadIdx.x + 1]));
}

// Sets the marks of a tile element by element: is_taken(element) for elements below `count`. Every
// lane of a warp takes part.
template <class IsTaken>
__device__ inline void mark_each(CompactionShared& shared, std::uint32_t count, IsTaken is_taken) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned w = threadIdx.x / kWarp; w < kMarkWords; w += kThreads / kWarp) {
    const unsigned element = w * 32 + lane;
    const std::uint32_t bits = __ballot_sync(kAllLanes, element < count && is_taken(element));
    if (lane == 0) shared.marks[w] = bits;
  }
}

// Sets the marks of `kBits` neighbouring elements that a thread has examined together; neighbouring
// lanes have neighbouring elements.
template <unsigned kBits>
__device__ inline void set_marks(CompactionShared& shared, unsigned group, std::uint32_t bits) {
  if constexpr (kBits == 16) {
    reinterpret_cast<std::uint16_t*>(shared.marks)[group] = static_cast<std::uint16_t>(bits);
  } else {
    if constexpr (kBits <= 2)
      bits |= __shfl_down_sync(kAllLanes, bits, 2)
              << 4;  // of lanes 4n and 4n + 2, and 4n + 1 and 4n + 3
    if constexpr (kBits <= 4) bits |= __shfl_down_sync(kAllLanes, bits, 1) << kBits;
    constexpr unsigned kLanes = 8 / kBits;
    if (group % kLanes == 0)
      reinterpret_cast<std::uint8_t*>(shared.marks)[group / kLanes] =
          static_cast<std::uint8_t>(bits);
  }
}

}  // namespace sparcl::kernels::cuda
