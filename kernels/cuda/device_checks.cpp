#include "kernels/cuda/device_checks.hpp"

#include <fmt/format.h>

#include <bit>

namespace sparcl::kernels::cuda {

Status check_sizes(const char* call, std::uint64_t count, std::size_t element_bytes,
                   std::size_t workspace_bytes, const Workspace& given) {
  if (count > kMaxElements) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {} of {} elements: at most {} are taken at a time", call,
                              count, kMaxElements));
  }
  if (!std::has_single_bit(element_bytes) || element_bytes > 8) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {} of elements of {} bytes: expected 1, 2, 4 or 8", call,
                              element_bytes));
  }
  if (given.count < workspace_bytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("CUDA: {}: the workspace has {} bytes, {} are needed", call,
                              given.count, workspace_bytes));
  }
  return Status();
}

}  // namespace sparcl::kernels::cuda
