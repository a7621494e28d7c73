// Simulated nodes have no GPU: instead of the composition root's choice, which would want CUDA's
// kernels linked.
#include "src/api/device_kernel_choice.hpp"

sparcl::Result<const sparcl::kernels::DeviceKernelSet*> sparcl::api::device_kernels() {
  return Status(Code::kUnsupported, "there are no GPUs in simulation");
}
