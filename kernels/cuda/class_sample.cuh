#pragma once
// Block routine that counts, in a sample, the elements and changes of each key
// (kernels/device_class_codec.hpp).

#include "kernels/cuda/bit_window.cuh"
#include "kernels/cuda/class_work.hpp"
#include "kernels/cuda/step_codes.cuh"

namespace sparcl::kernels::cuda {

struct ClassSampleShared {
  std::uint32_t elements[256];
};

// Runs for chunk blockIdx.x.
__device__ inline void sample_classes(ClassSampleShared& shared, const ClassSampleWork& work) {
  shared.elements[threadIdx.x] = 0;
  __syncthreads();
  const ClassSampleChunk chunk = work.chunks[blockIdx.x];
  ClassSampleCounts& counts = work.counts[chunk.sample];
  const auto* const base = static_cast<const std::uint16_t*>(chunk.base);
  const auto* const target = static_cast<const std::uint16_t*>(chunk.target);
  for (std::uint32_t i = threadIdx.x; i < chunk.count; i += kThreads) {
    const std::uint16_t old_value = base[i], new_value = target[i];
    const unsigned key = old_value >> 7 & 0xff;
    atomicAdd(&shared.elements[key], 1U);
    if (old_value == new_value) continue;
    const auto magnitude =
        static_cast<std::uint32_t>(step_between(old_value, new_value, true).magnitude);
    atomicAdd(&counts.all[key][floor_log2(magnitude)], 1U);
    if (magnitude > 1) atomicAdd(&counts.listed[key][floor_log2(magnitude - 1)], 1U);
  }
  __syncthreads();
  const std::uint32_t own = shared.elements[threadIdx.x];
  if (own > 0) atomicAdd(&counts.elements[threadIdx.x], own);
}
static_assert(kThreads == 256, "a thread a key");

}  // namespace sparcl::kernels::cuda
