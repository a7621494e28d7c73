#pragma once
// CUDA's errors as statuses.

#include <cuda_runtime_api.h>

#include "src/base/status.hpp"

namespace sparcl::kernels::cuda {

// what: the call, as errors name it.
Status status_of(cudaError_t error, const char* what);

// The status of the launch before. It takes the last error, so that no later call reports it.
inline Status launched(const char* what) { return status_of(cudaGetLastError(), what); }

}  // namespace sparcl::kernels::cuda
