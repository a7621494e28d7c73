#pragma once
// kernels/device_scaled.hpp on CUDA's devices.

#include "kernels/device_scaled.hpp"

namespace sparcl::kernels::cuda {

EncodeScaledKernel encode_scaled;
DecodeScaledKernel decode_scaled;
RoundGroupsKernel round_groups;

}  // namespace sparcl::kernels::cuda
