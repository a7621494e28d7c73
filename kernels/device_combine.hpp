#pragma once
// Contract of the kernel that combines what all ranks hold of the same elements, in device memory.
// It enqueues on a stream, allocates nothing and waits for nothing. Nothing of CUDA is needed to
// include this.

#include <cstdint>

#include "kernels/reduce.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// One row of each rank, in their order, of `count` elements each. Aligned to the elements, and so
// is the stride.
struct DeviceRows {
  const void* first;
  std::uint64_t stride_bytes;  // from row to row
  std::uint32_t ranks;
  std::uint64_t count;
};
constexpr std::uint32_t kMaxCombinedRows = 1024;

// result[i] = the rows' elements i, combined in the ranks' tree (rank_tree.hpp), and divided by the
// ranks where that is a mean: each step as kernels/reduce.hpp has it, for all its types, bit for
// bit. result may be one of the rows.
using CombineDeviceRowsKernel = Status(const DeviceRows& rows, DataType type, ReduceOp op,
                                       bool is_mean, void* result, void* stream);

}  // namespace sparcl::kernels
