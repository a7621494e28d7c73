#include "kernels/cuda/element_type.hpp"

#include <fmt/format.h>

namespace sparcl::kernels::cuda {

std::optional<TopKType> top_k_type(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return TopKType::kFloat32;
    case DataType::kFloat16:
      return TopKType::kFloat16;
    case DataType::kBfloat16:
      return TopKType::kBfloat16;
    case DataType::kFloat8e4m3:
      return TopKType::kFloat8e4m3;
    case DataType::kFloat8e5m2:
      return TopKType::kFloat8e5m2;
    case DataType::kFloat64:
      return TopKType::kFloat64;
    case DataType::kInt32:
      return TopKType::kInt32;
    case DataType::kUint32:
      return TopKType::kUint32;
    case DataType::kInt64:
      return TopKType::kInt64;
    case DataType::kUint64:
      return TopKType::kUint64;
    default:
      return std::nullopt;
  }
}

Result<TopKType> accumulated_type(const char* call, DataType type) {
  if (const std::optional<TopKType> kind = top_k_type(type)) return *kind;
  return Status(Code::kUnsupported,
                fmt::format("CUDA: {} of {}: it has no accumulators", call, info(type).name));
}

}  // namespace sparcl::kernels::cuda
