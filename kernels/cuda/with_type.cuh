#pragma once
// From a type that is known when a program runs to one that is known when it is compiled: for
// launchers.

#include <cuda_runtime_api.h>

#include <type_traits>

#include "kernels/cuda/device_work.hpp"

namespace sparcl::kernels::cuda {

// visit(std::integral_constant<TopKType, type>), which gives CUDA's error.
template <class Visit>
cudaError_t with_type(TopKType type, const Visit& visit) {
  switch (type) {
    case TopKType::kFloat32:
      return visit(std::integral_constant<TopKType, TopKType::kFloat32>());
    case TopKType::kFloat16:
      return visit(std::integral_constant<TopKType, TopKType::kFloat16>());
    case TopKType::kBfloat16:
      return visit(std::integral_constant<TopKType, TopKType::kBfloat16>());
    case TopKType::kFloat8e4m3:
      return visit(std::integral_constant<TopKType, TopKType::kFloat8e4m3>());
    case TopKType::kFloat8e5m2:
      return visit(std::integral_constant<TopKType, TopKType::kFloat8e5m2>());
    case TopKType::kFloat64:
      return visit(std::integral_constant<TopKType, TopKType::kFloat64>());
    case TopKType::kInt32:
      return visit(std::integral_constant<TopKType, TopKType::kInt32>());
    case TopKType::kUint32:
      return visit(std::integral_constant<TopKType, TopKType::kUint32>());
    case TopKType::kInt64:
      return visit(std::integral_constant<TopKType, TopKType::kInt64>());
    case TopKType::kUint64:
      return visit(std::integral_constant<TopKType, TopKType::kUint64>());
  }
  return cudaErrorInvalidValue;
}

}  // namespace sparcl::kernels::cuda
