#pragma once
// CUDA's errors as statuses.

#include <cuda_runtime_api.h>

#include "src/base/status.hpp"

namespace sparcl::kernels::cuda {

// what: the call, as errors name it.
Status status_of(cudaError_t error, const char* what);

// Of the launch before: the last error is taken, so that it is not another call's.
inline Status launched(const char* what) { return status_of(cudaGetLastError(), what); }

}  // namespace sparcl::kernels::cuda
