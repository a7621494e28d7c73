#pragma once
// Contract of the kernel that combines the same elements of all ranks, in device memory. It
// enqueues on a stream, allocates nothing and does not wait. This header needs no CUDA.

#include <cstdint>

#include "kernels/reduce.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// One row for each rank, in their order, of `count` elements each. The base address and the stride
// are aligned to the elements.
struct DeviceRows {
  const void* first;
  std::uint64_t stride_bytes;  // from row to row
  std::uint32_t ranks;
  std::uint64_t count;
};
constexpr std::uint32_t kMaxCombinedRows = 1024;

// result[i] = the elements i of the rows, combined in the ranks' tree (rank_tree.hpp); for a mean,
// divided by the number of ranks. Each step is that of kernels/reduce.hpp, for all its types, bit
// for bit. result may be one of the rows.
using CombineDeviceRowsKernel = Status(const DeviceRows& rows, DataType type, ReduceOp op,
                                       bool is_mean, void* result, void* stream);

}  // namespace sparcl::kernels
