#pragma once
// Contracts of the kernels on sparse entries in device memory. Each call enqueues on a stream,
// allocates nothing and does not wait. The device reads the number of entries, so a graph that
// contains the call handles other numbers in its next launch. The host knows only an upper bound.
// This header needs no CUDA.

#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// Indices ascend strictly. Values are accumulators of a type (accumulate.hpp: one bit pattern a
// number), or nullptr if they are not wanted. Arrays are aligned to their elements.
struct DeviceEntries {
  std::uint64_t* indices;
  void* values;
  std::uint64_t* count;  // one number in device memory
};

// out: the union of a and b. If both have an index, its value is a's value + b's, made canonical
// (-0 counts as +0, one NaN). capacity_a and capacity_b are the room of the arrays, so *count is no
// more. out has room for the sum of both, and overlaps neither. The values of a, b and out are all
// present, or all nullptr. a and b may be empty, and may be the same. type: of the elements; it
// determines the accumulators. The workspace is aligned to 16 bytes, and may be reused when the
// stream's work is done.
using MergeDeviceEntriesKernel = Status(const DeviceEntries& a, std::uint64_t capacity_a,
                                        const DeviceEntries& b, std::uint64_t capacity_b,
                                        const DeviceEntries& out, DataType type, void* workspace,
                                        std::size_t workspace_bytes, void* stream);
using MergeDeviceWorkspaceBytes = std::size_t(std::uint64_t capacity_a, std::uint64_t capacity_b);

// array[index] = value / divisor, rounded to `type` (divisor 1: a sum; ranks: a mean), as
// ReduceKernels divide and narrow. Other elements of the array are not written. capacity: of the
// entries; all indices are below the array's count.
using ScatterDeviceEntriesKernel = Status(const DeviceEntries& entries, std::uint64_t capacity,
                                          std::uint32_t divisor, void* array, DataType type,
                                          void* stream);

// The value of each entry = the accumulator of the array's element at its index, canonical. Writes
// only entries.values. is_accumulated: the array holds accumulators (a residual), not elements.
using GatherDeviceEntriesKernel = Status(const void* array, bool is_accumulated, DataType type,
                                         const DeviceEntries& entries, std::uint64_t capacity,
                                         void* stream);

// The kernels of one kind of device.
struct DeviceEntryKernels {
  MergeDeviceEntriesKernel* merge = nullptr;
  MergeDeviceWorkspaceBytes* merge_workspace_bytes = nullptr;
  ScatterDeviceEntriesKernel* scatter = nullptr;
  GatherDeviceEntriesKernel* gather = nullptr;
};

}  // namespace sparcl::kernels
