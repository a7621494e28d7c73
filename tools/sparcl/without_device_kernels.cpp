// The program calls the library's functions on files alone, which need no GPU. CUDA's kernels are
// not linked: they are registered when a process starts, and a process without memory would then
// crash.

#include "src/api/device_kernel_choice.hpp"

namespace sparcl::api {

Result<const kernels::DeviceKernelSet*> device_kernels() {
  return Status(Code::kUnsupported, "this program has no kernels for GPUs");
}

}  // namespace sparcl::api
