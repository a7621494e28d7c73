// The program calls the library for files alone, which need no GPU. CUDA's kernels stay out of it:
// they are registered when a process starts, and a process that finds no memory then would crash.

#include "src/api/device_kernel_choice.hpp"

namespace sparcl::api {

Result<const kernels::DeviceKernelSet*> device_kernels() {
  return Status(Code::kUnsupported, "this program has no kernels for GPUs");
}

}  // namespace sparcl::api
