#pragma once
// The kernels on device memory that this build has.

#include "kernels/device_kernel_set.hpp"
#include "src/base/status.hpp"

namespace sparcl::api {

// Unsupported where there are none.
Result<const kernels::DeviceKernelSet*> device_kernels();

}  // namespace sparcl::api
