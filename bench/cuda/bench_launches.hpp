#pragma once
// Peers of the bench's kernels, and the kernels that make its inputs, on the device.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sparcl::bench {

// Keeps the stream busy while a call enqueues its launches, so that they run without gaps.
cudaError_t spin(cudaStream_t stream);

// Random bits. A copy in which about one element of `one_in` has one bit flipped. The bit is the
// lowest, or with a chance of `percent_larger` % one of the five above, which is a change of more
// than one step. A second copy restores the array.
cudaError_t fill_random(std::uint32_t* words, std::uint64_t count, std::uint64_t seed,
                        cudaStream_t stream);
cudaError_t copy_with_changes(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count,
                              std::uint32_t one_in, std::uint32_t percent_larger,
                              cudaStream_t stream);
// Rows of `row` elements. In one row of `one_in` the lowest bit of each element is flipped, like
// embeddings of the words in a batch.
cudaError_t copy_with_rows(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count,
                           std::uint32_t row, std::uint32_t one_in, cudaStream_t stream);
// bf16 weights, normal with deviation 0.02. A copy after a step of 2e-7, as far as rounding shows
// it: about 1 % have their lowest bit flipped, small ones more often. A second copy restores the
// array.
cudaError_t fill_weights(std::uint16_t* weights, std::uint64_t count, std::uint64_t seed,
                         cudaStream_t stream);
cudaError_t copy_with_steps(const std::uint16_t* from, std::uint16_t* to, std::uint64_t count,
                            cudaStream_t stream);
// Normal numbers (Box-Muller), because gradients have tails, on which top-k depends.
cudaError_t fill_normal(float* values, std::uint64_t count, std::uint64_t seed,
                        cudaStream_t stream);

// Floors: both arrays read once; residual += values.
cudaError_t read_two(const void* a, const void* b, std::uint64_t bytes, std::uint32_t* sink,
                     cudaStream_t stream);
cudaError_t add_to(const float* values, float* residual, std::uint64_t count, cudaStream_t stream);

// A peer of top-k: residual += values and the keys of the result, then cub::DeviceRadixSort of all
// keys with their indices. workspace nullptr: returns the bytes that the sort needs.
cudaError_t add_and_key(const float* values, float* residual, std::uint32_t* keys,
                        std::uint64_t count, cudaStream_t stream);
cudaError_t sort_pairs(void* workspace, std::size_t* bytes, const std::uint32_t* keys,
                       std::uint32_t* sorted_keys, const std::uint32_t* indices,
                       std::uint32_t* sorted_indices, std::uint64_t count, cudaStream_t stream);

// Two ascending lists of `count` entries each, with about every second index in both; all values
// are 1.
cudaError_t fill_entries(std::uint64_t* indices, float* values, std::uint64_t count,
                         std::uint64_t seed, cudaStream_t stream);
// A peer of the merge: cub::DeviceMerge::MergePairs, which keeps both entries of a common index.
// workspace nullptr: returns the bytes that it needs.
cudaError_t merge_pairs(void* workspace, std::size_t* bytes, const std::uint64_t* indices_a,
                        const float* values_a, const std::uint64_t* indices_b,
                        const float* values_b, std::uint64_t count, std::uint64_t* indices,
                        float* values, cudaStream_t stream);

}  // namespace sparcl::bench
