#pragma once
// The launch of the cast, like the other launches in launchers.hpp.

#include <cuda_runtime_api.h>

#include "kernels/cuda/cast_work.hpp"
#include "src/base/data_type.hpp"

namespace sparcl::kernels::cuda {

// There are values.
cudaError_t launch_cast(const CastWork& work, DataType type, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
