#pragma once
// The kernels on CUDA's devices, for those that name no header of CUDA's.

#include "kernels/device_kernel_set.hpp"

namespace sparcl::kernels::cuda {

const DeviceKernelSet& cuda_kernels();

}  // namespace sparcl::kernels::cuda
