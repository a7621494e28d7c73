#pragma once
// Checks of calls on device arrays, before they enqueue anything.

#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::kernels::cuda {

Status check_sizes(const char* call, std::uint64_t count, std::size_t element_bytes,
                   std::size_t workspace_bytes, const Workspace& given);

}  // namespace sparcl::kernels::cuda
