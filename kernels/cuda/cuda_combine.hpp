#pragma once
// kernels/device_combine.hpp on CUDA's devices.

#include "kernels/device_combine.hpp"

namespace sparcl::kernels::cuda {

CombineDeviceRowsKernel combine_rows;

}  // namespace sparcl::kernels::cuda
