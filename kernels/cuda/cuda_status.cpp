#include "kernels/cuda/cuda_status.hpp"

#include <fmt/format.h>

namespace sparcl::kernels::cuda {

Status status_of(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status();
  const Code code =
      error == cudaErrorMemoryAllocation ? Code::kOutOfMemory : Code::kUnhandledCudaError;
  return Status(code, fmt::format("CUDA: {}: {} ({})", what, cudaGetErrorString(error),
                                  cudaGetErrorName(error)));
}

}  // namespace sparcl::kernels::cuda
