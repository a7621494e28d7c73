#pragma once
// kernels/device_cast.hpp on CUDA's devices.

#include "kernels/device_cast.hpp"

namespace sparcl::kernels::cuda {

CastDeviceFloatsKernel cast_floats;

}  // namespace sparcl::kernels::cuda
