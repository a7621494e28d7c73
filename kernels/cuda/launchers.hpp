#pragma once
// The launches, apart from what checks arguments: nvcc compiles them, and they include nothing but
// block routines. Each enqueues on the stream and gives CUDA's error as it is.

#include <cuda_runtime_api.h>

#include "kernels/cuda/device_work.hpp"

namespace sparcl::kernels::cuda {

// Whether there is code for this GPU; launches nothing.
cudaError_t find_kernels();

// element_bytes: 1, 2, 4, 8. The array is not empty.
cudaError_t launch_diff(const DiffWork& work, std::size_t element_bytes, cudaStream_t stream);

// *work.refused: adds the number of changes whose old value differs from the array's.
cudaError_t launch_check(const ApplyWork& work, std::size_t element_bytes, cudaStream_t stream);
cudaError_t launch_apply(const ApplyWork& work, std::size_t element_bytes, cudaStream_t stream);

// The arrays are not empty; the workspaces' states and next_block are zeros, and so is
// *work.refused.
cudaError_t launch_encode(const EncodeWork& work, std::size_t element_bytes, cudaStream_t stream);
cudaError_t launch_decode(const DecodeWork& work, std::size_t element_bytes, cudaStream_t stream);

// The mask is not empty.
cudaError_t launch_gather_mask(const MaskWork& work, std::size_t element_bytes,
                               cudaStream_t stream);
cudaError_t launch_scatter_mask(const MaskWork& work, std::size_t element_bytes,
                                cudaStream_t stream);

// The workspace's states, and *work.found, are zeros.
cudaError_t launch_top_k(const TopKWork& work, TopKType type, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
