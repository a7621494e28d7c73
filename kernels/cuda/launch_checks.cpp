#include "kernels/cuda/launch_checks.hpp"

#include <fmt/format.h>

#include <bit>

namespace sparcl::kernels::cuda {

Status check_workspace(const char* call, std::size_t workspace_bytes, const Workspace& given) {
  if (given.count >= workspace_bytes) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("CUDA: {}: the workspace has {} bytes, {} are needed", call, given.count, workspace_bytes));
}

Status check_sizes(const char* call, std::uint64_t count, std::size_t element_bytes, std::size_t workspace_bytes,
                   const Workspace& given) {
  if (count > kMaxElements) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {} of {} elements: at most {} are taken at a time", call, count, kMaxElements));
  }
  if (!std::has_single_bit(element_bytes) || element_bytes > 8) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {} of elements of {} bytes: expected 1, 2, 4 or 8", call, element_bytes));
  }
  return check_workspace(call, workspace_bytes, given);
}

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
  return Status(Code::kUnsupported, fmt::format("CUDA: {} of {}: it has no accumulators", call, info(type).name));
}

}  // namespace sparcl::kernels::cuda
