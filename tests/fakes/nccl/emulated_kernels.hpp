#pragma once
// The device kernels of this test's library: the block routines that run on GPUs, emulated on the
// host, in their streams' order.

#include <cstdlib>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/device_work.hpp"
#include "kernels/device_kernel_set.hpp"
#include "tests/fakes/driver/fake_driver.hpp"

namespace sparcl::test {

struct NoShared {};

// Of all launches of this program: the emulation runs one grid at a time.
inline std::mutex& grid_mutex() {
  static std::mutex mutex;
  return mutex;
}

template <class T>
T* seen(T* pointer) {
  return static_cast<T*>(reachable(pointer));
}

inline kernels::DeviceEntries seen_entries(const kernels::DeviceEntries& entries) {
  return {seen(entries.indices), reachable(entries.values), seen(entries.count)};
}

// visit(std::integral_constant<TopKType, ...>) for a type that has accumulators.
template <class Visit>
void with_kind(DataType type, const Visit& visit) {
  using kernels::cuda::TopKType;
  switch (type) {
    case DataType::kFloat32:
      return visit(std::integral_constant<TopKType, TopKType::kFloat32>());
    case DataType::kFloat16:
      return visit(std::integral_constant<TopKType, TopKType::kFloat16>());
    case DataType::kBfloat16:
      return visit(std::integral_constant<TopKType, TopKType::kBfloat16>());
    case DataType::kFloat8e4m3:
      return visit(std::integral_constant<TopKType, TopKType::kFloat8e4m3>());
    case DataType::kFloat8e5m2:
      return visit(std::integral_constant<TopKType, TopKType::kFloat8e5m2>());
    case DataType::kFloat64:
      return visit(std::integral_constant<TopKType, TopKType::kFloat64>());
    case DataType::kInt32:
      return visit(std::integral_constant<TopKType, TopKType::kInt32>());
    case DataType::kUint32:
      return visit(std::integral_constant<TopKType, TopKType::kUint32>());
    case DataType::kInt64:
      return visit(std::integral_constant<TopKType, TopKType::kInt64>());
    case DataType::kUint64:
      return visit(std::integral_constant<TopKType, TopKType::kUint64>());
    default:
      std::abort();
  }
}

// As a launch of a kernel.
inline Status launch_in(const void* stream, std::function<void()> work) {
  const int error = launch_kernel(stream, std::move(work));
  return error == 0 ? Status()
                    : Status(Code::kUnhandledCudaError,
                             "CUDA: a kernel: CUresult " + std::to_string(error));
}

kernels::TopKKernels emulated_top_k();
kernels::DeviceEntryKernels emulated_entries();
kernels::DeviceSumKernels emulated_sums();
kernels::EncodeScaledKernel* emulated_encode_scaled();
kernels::RoundGroupsKernel* emulated_round_groups();
kernels::DeviceBlockKernels emulated_block_kernels();
kernels::CombineDeviceRowsKernel* emulated_combine_rows();

}  // namespace sparcl::test
