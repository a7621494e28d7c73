#pragma once
// Blocks of classes on arrays in device memory, as kernels/device_class_codec.hpp has them.

#include "kernels/device_class_codec.hpp"

namespace sparcl::kernels::cuda {

DeviceClassKernels class_kernels();

}  // namespace sparcl::kernels::cuda
