#pragma once
// Checks of arguments that several calls have, with the errors that say what is wrong.

#include <optional>

#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::kernels::cuda {

// call: as errors name it. workspace_bytes: what it needs.
Status check_workspace(const char* call, std::size_t workspace_bytes, const Workspace& given);
Status check_sizes(const char* call, std::uint64_t count, std::size_t element_bytes, std::size_t workspace_bytes,
                   const Workspace& given);

// Of the types that have accumulators.
std::optional<TopKType> top_k_type(DataType type);
Result<TopKType> accumulated_type(const char* call, DataType type);

}  // namespace sparcl::kernels::cuda
