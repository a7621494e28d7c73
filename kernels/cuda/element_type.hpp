#pragma once
// Data types as launches know them.

#include <optional>

#include "kernels/cuda/device_work.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels::cuda {

// For the types that have accumulators.
std::optional<TopKType> top_k_type(DataType type);

// The same, or an error that says which types the call takes.
Result<TopKType> accumulated_type(const char* call, DataType type);

}  // namespace sparcl::kernels::cuda
