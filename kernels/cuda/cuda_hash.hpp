#pragma once
// kernels/device_hash.hpp on CUDA's devices.

#include "kernels/device_hash.hpp"

namespace sparcl::kernels::cuda {

HashDeviceArrayKernel hash_array;

}  // namespace sparcl::kernels::cuda
