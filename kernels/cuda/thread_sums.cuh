#pragma once
// Sums over the threads of a block.

#include "kernels/cuda/device_work.hpp"
#include "kernels/cuda/wide_loads.cuh"

namespace sparcl::kernels::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;
constexpr unsigned kMaxSums = 5;  // that are made together

struct BlockSumsShared {
  std::uint64_t of_warps[kThreads / kWarp][kMaxSums];
};

__device__ inline std::uint64_t sum_of_warp(std::uint64_t own) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2)
    own += __shfl_down_sync(kAllLanes, own, step);
  return own;  // in lane 0
}

// Several sums over all threads, at the barriers of one: thread n has that of own[n], the threads
// after those nothing.
template <unsigned kCount>
__device__ inline std::uint64_t sums_of_block(BlockSumsShared& shared,
                                              const std::uint64_t (&own)[kCount]) {
  static_assert(kCount <= kMaxSums);
  __syncthreads();  // the sums of the previous call have been read
  SPARCL_UNROLL
  for (unsigned n = 0; n < kCount; ++n) {
    const std::uint64_t sum = sum_of_warp(own[n]);
    if (threadIdx.x % kWarp == 0) shared.of_warps[threadIdx.x / kWarp][n] = sum;
  }
  __syncthreads();
  std::uint64_t sum = 0;
  if (threadIdx.x >= kCount) return sum;
  for (unsigned warp = 0; warp < kThreads / kWarp; ++warp)
    sum += shared.of_warps[warp][threadIdx.x];
  return sum;
}

// The sum over all threads, for all of them. Holds barriers.
__device__ inline std::uint64_t sum_of_block(BlockSumsShared& shared, std::uint64_t own) {
  own = sum_of_warp(own);
  __syncthreads();  // the sums of the previous call have been read
  if (threadIdx.x % kWarp == 0) shared.of_warps[threadIdx.x / kWarp][0] = own;
  __syncthreads();
  std::uint64_t sum = 0;
  for (unsigned warp = 0; warp < kThreads / kWarp; ++warp) sum += shared.of_warps[warp][0];
  return sum;
}

}  // namespace sparcl::kernels::cuda
