#include <climits>
#include <cub/device/device_merge.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "bench/cuda/bench_launches.hpp"

namespace sparcl::bench {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 4096;

// As many blocks as there is room for, so that each thread goes through the whole array with the
// others.
unsigned resident_blocks() {
  int device = 0, multiprocessors = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return kBlocks;
  if (cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) !=
      cudaSuccess)
    return kBlocks;
  return 8 * static_cast<unsigned>(multiprocessors);
}

__device__ std::uint64_t mixed(std::uint64_t z) {
  z *= 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

__device__ std::uint64_t first_of_thread() {
  return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
}
__device__ std::uint64_t threads() { return std::uint64_t{gridDim.x} * kThreads; }

__device__ std::uint64_t nanoseconds() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_kernel(std::uint64_t for_nanoseconds) {
  for (const std::uint64_t begin = nanoseconds(); nanoseconds() - begin < for_nanoseconds;) {
  }
}

__global__ void random_kernel(std::uint32_t* words, std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads())
    words[i] = static_cast<std::uint32_t>(mixed(i + seed));
}

__global__ void change_kernel(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count,
                              std::uint32_t one_in, std::uint32_t percent_larger) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads()) {
    const std::uint64_t chance = mixed(i), other = mixed(chance);
    const unsigned bit = other % 100 < percent_larger ? 1 + (other >> 32) % 5 : 0;
    to[i] = static_cast<std::uint16_t>(from[i] ^ (chance % one_in == 0 ? 1 << bit : 0));
  }
}

__global__ void change_rows_kernel(const std::uint16_t* from, std::uint16_t* to,
                                   std::uint64_t count, std::uint32_t row, std::uint32_t one_in) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads())
    to[i] = static_cast<std::uint16_t>(from[i] ^ (mixed(i / row) % one_in == 0 ? 1 : 0));
}

__device__ float normal(std::uint64_t bits) {
  const float radius = sqrtf(-2 * logf((static_cast<float>(bits >> 40) + 1) / 16777217.0F));
  return radius * cosf(6.2831853F * static_cast<float>(bits & 0xffffff) / 16777216.0F);
}

__global__ void normal_kernel(float* values, std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads())
    values[i] = normal(mixed(i + seed));
}

__global__ void weights_kernel(std::uint16_t* weights, std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads())
    weights[i] = static_cast<std::uint16_t>(__float_as_uint(0.02F * normal(mixed(i + seed))) >> 16);
}

__global__ void step_kernel(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count) {
  constexpr float kStep = 2e-7F;
  for (std::uint64_t i = first_of_thread(); i < count; i += threads()) {
    const std::uint32_t bits = from[i];
    const float ulp = ldexpf(1.0F, static_cast<int>(bits >> 7 & 0xff) - 127 - 7);
    const std::uint64_t chance = mixed(i);
    const bool is_seen = static_cast<float>(chance >> 40) * 0x1p-24F < kStep / ulp;
    to[i] = static_cast<std::uint16_t>(bits ^ (is_seen ? 1 : 0));
  }
}

__global__ void read_kernel(const uint4* a, const uint4* b, std::uint64_t count,
                            std::uint32_t* sink) {
  std::uint32_t sum = 0;
  for (std::uint64_t i = first_of_thread(); i < count; i += threads()) {
    const uint4 x = a[i], y = b[i];
    sum ^= x.x ^ x.y ^ x.z ^ x.w ^ y.x ^ y.y ^ y.z ^ y.w;
  }
  if (sum == 0x12345) *sink = sum;  // so that nothing is left out
}

__global__ void add_kernel(const float4* values, float4* residual, std::uint64_t count) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads()) {
    const float4 x = values[i];
    float4 y = residual[i];
    y = {y.x + x.x, y.y + x.y, y.z + x.z, y.w + x.w};
    residual[i] = y;
  }
}

__global__ void add_and_key_kernel(const float4* values, float4* residual, uint4* keys,
                                   std::uint64_t count) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads()) {
    const float4 x = values[i];
    float4 y = residual[i];
    y = {y.x + x.x, y.y + x.y, y.z + x.z, y.w + x.w};
    residual[i] = y;
    keys[i] = {__float_as_uint(fabsf(y.x)), __float_as_uint(fabsf(y.y)),
               __float_as_uint(fabsf(y.z)), __float_as_uint(fabsf(y.w))};
  }
}

__global__ void entries_kernel(std::uint64_t* indices, float* values, std::uint64_t count,
                               std::uint64_t seed) {
  for (std::uint64_t i = first_of_thread(); i < count; i += threads()) {
    indices[i] = 64 * i + (mixed(i) % 2 == 0 ? mixed(i + seed) % 64 : mixed(i) % 64);
    values[i] = 1;
  }
}

}  // namespace

cudaError_t spin(cudaStream_t stream) {
  constexpr std::uint64_t kNanoseconds =
      200'000;  // for some twenty launches of a few microseconds each
  spin_kernel<<<1, 1, 0, stream>>>(kNanoseconds);
  return cudaGetLastError();
}

cudaError_t fill_random(std::uint32_t* words, std::uint64_t count, std::uint64_t seed,
                        cudaStream_t stream) {
  random_kernel<<<kBlocks, kThreads, 0, stream>>>(words, count, seed);
  return cudaGetLastError();
}

cudaError_t copy_with_changes(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count,
                              std::uint32_t one_in, std::uint32_t percent_larger,
                              cudaStream_t stream) {
  change_kernel<<<kBlocks, kThreads, 0, stream>>>(from, to, count, one_in, percent_larger);
  return cudaGetLastError();
}

cudaError_t copy_with_rows(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count,
                           std::uint32_t row, std::uint32_t one_in, cudaStream_t stream) {
  change_rows_kernel<<<kBlocks, kThreads, 0, stream>>>(from, to, count, row, one_in);
  return cudaGetLastError();
}

cudaError_t fill_weights(std::uint16_t* weights, std::uint64_t count, std::uint64_t seed,
                         cudaStream_t stream) {
  weights_kernel<<<kBlocks, kThreads, 0, stream>>>(weights, count, seed);
  return cudaGetLastError();
}

cudaError_t copy_with_steps(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count,
                            cudaStream_t stream) {
  step_kernel<<<kBlocks, kThreads, 0, stream>>>(from, to, count);
  return cudaGetLastError();
}

cudaError_t fill_normal(float* values, std::uint64_t count, std::uint64_t seed,
                        cudaStream_t stream) {
  normal_kernel<<<kBlocks, kThreads, 0, stream>>>(values, count, seed);
  return cudaGetLastError();
}

cudaError_t read_two(const void* a, const void* b, std::uint64_t bytes, std::uint32_t* sink,
                     cudaStream_t stream) {
  read_kernel<<<resident_blocks(), kThreads, 0, stream>>>(
      static_cast<const uint4*>(a), static_cast<const uint4*>(b), bytes / 16, sink);
  return cudaGetLastError();
}

cudaError_t add_to(const float* values, float* residual, std::uint64_t count, cudaStream_t stream) {
  add_kernel<<<resident_blocks(), kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(values), reinterpret_cast<float4*>(residual), count / 4);
  return cudaGetLastError();
}

cudaError_t add_and_key(const float* values, float* residual, std::uint32_t* keys,
                        std::uint64_t count, cudaStream_t stream) {
  add_and_key_kernel<<<resident_blocks(), kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(values), reinterpret_cast<float4*>(residual),
      reinterpret_cast<uint4*>(keys), count / 4);
  return cudaGetLastError();
}

cudaError_t sort_pairs(void* workspace, std::size_t* bytes, const std::uint32_t* keys,
                       std::uint32_t* sorted_keys, const std::uint32_t* indices,
                       std::uint32_t* sorted_indices, std::uint64_t count, cudaStream_t stream) {
  const auto sort = [&](auto items) {  // whose type is that of CUB's offsets
    return cub::DeviceRadixSort::SortPairsDescending(workspace, *bytes, keys, sorted_keys, indices,
                                                     sorted_indices, items, 0, 32, stream);
  };
  return count <= INT_MAX ? sort(static_cast<int>(count)) : sort(count);
}

cudaError_t fill_entries(std::uint64_t* indices, float* values, std::uint64_t count,
                         std::uint64_t seed, cudaStream_t stream) {
  entries_kernel<<<kBlocks, kThreads, 0, stream>>>(indices, values, count, seed);
  return cudaGetLastError();
}

cudaError_t merge_pairs(void* workspace, std::size_t* bytes, const std::uint64_t* indices_a,
                        const float* values_a, const std::uint64_t* indices_b,
                        const float* values_b, std::uint64_t count, std::uint64_t* indices,
                        float* values, cudaStream_t stream) {
  const auto each = static_cast<std::int64_t>(count);
  return cub::DeviceMerge::MergePairs(workspace, *bytes, indices_a, values_a, each, indices_b,
                                      values_b, each, indices, values, {}, stream);
}

}  // namespace sparcl::bench
