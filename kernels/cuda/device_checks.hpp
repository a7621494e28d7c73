#pragma once
// What calls on device arrays check before they enqueue anything.

#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::kernels::cuda {

Status check_sizes(const char* call, std::uint64_t count, std::size_t element_bytes,
                   std::size_t workspace_bytes, const Workspace& given);

}  // namespace sparcl::kernels::cuda
