#pragma once
// The kernels on device memory that this build has.

#include "kernels/mask_access.hpp"
#include "src/base/status.hpp"

namespace sparcl::api {

// Unsupported where there are none.
Result<const kernels::DeviceKernelSet*> device_kernels();

}  // namespace sparcl::api
