#pragma once
// The launch that combines rows, like the other launches in launchers.hpp.

#include <cuda_runtime_api.h>

#include "kernels/cuda/combine_work.hpp"

namespace sparcl::kernels::cuda {

cudaError_t launch_combine(const CombineWork& work, DataType type, ReduceOp op,
                           cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
