#pragma once
// The launches on scaled values, like the other launches in launchers.hpp.

#include <cuda_runtime_api.h>

#include "kernels/cuda/scaled_work.hpp"

namespace sparcl::kernels::cuda {

// The capacity is not 0. encode: *work.scaled.exact_count is.
cudaError_t launch_encode_scaled(const ScaledWork& work, cudaStream_t stream);
cudaError_t launch_decode_scaled(const ScaledWork& work, cudaStream_t stream);
// bits: 4 or 2. Uses nothing of work.scaled.
cudaError_t launch_round_groups(const ScaledWork& work, unsigned bits, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
