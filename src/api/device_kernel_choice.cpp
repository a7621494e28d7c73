#include "src/api/device_kernel_choice.hpp"

#if SPARCL_WITH_CUDA
#include "kernels/cuda/cuda_kernel_set.hpp"
#endif

namespace sparcl::api {

Result<const kernels::DeviceKernelSet*> device_kernels() {
#if SPARCL_WITH_CUDA
  return &kernels::cuda::cuda_kernels();
#else
  return Status(Code::kUnsupported,
                "CUDA's kernels are not in this build: SPARCL_CUDA=OFF, or no nvcc was found");
#endif
}

}  // namespace sparcl::api
