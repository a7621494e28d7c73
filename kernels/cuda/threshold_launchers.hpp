#pragma once
// The launches that take large elements, like the other launches in launchers.hpp.

#include <cuda_runtime_api.h>

#include "kernels/cuda/threshold_work.hpp"

namespace sparcl::kernels::cuda {

// Arrays are not empty; the workspace's states and next_tile are zeros.
cudaError_t launch_take_large(const LargeWork& work, TopKType type, cudaStream_t stream);
cudaError_t launch_large_diff(const LargeDiffWork& work, DataType type, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
