#pragma once
// The launch of the state hash, like the other launches in launchers.hpp.

#include <cuda_runtime_api.h>

#include "kernels/cuda/hash_work.hpp"

namespace sparcl::kernels::cuda {

// The array is not empty.
cudaError_t launch_hash(const HashWork& work, std::size_t element_bytes, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
