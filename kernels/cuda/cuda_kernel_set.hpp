#pragma once
// The kernels on CUDA devices, for code that includes no CUDA header.

#include "kernels/device_kernel_set.hpp"

namespace sparcl::kernels::cuda {

const DeviceKernelSet& cuda_kernels();

}  // namespace sparcl::kernels::cuda
