#pragma once
// Contracts of the kernels on sparse entries in device memory. Each call enqueues on a stream,
// allocates nothing and waits for nothing; how many entries there are is read on the device, so
// that a graph which holds the call takes other numbers of them in its next launch. What the host
// knows is an upper bound. Nothing of CUDA is needed to include this.

#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// Indices ascend strictly; values are accumulators of a type (accumulate.hpp: one pattern of bits a
// number), or, where nothing of them is wanted, nullptr. Arrays are aligned to their elements.
struct DeviceEntries {
  std::uint64_t* indices;
  void* values;
  std::uint64_t* count;  // one number in device memory
};

// out: the union of a and b; where both have an index, a's value + b's, made canonical (-0 counts
// as +0, one NaN). capacity_a and capacity_b are the room of the arrays, so *count is no more; out
// has room for the sum of both, and overlaps neither. The values of a, b and out are all there, or
// none is. a and b may be empty, and the same. type: of the elements; their accumulators are what
// counts. The workspace is aligned to 16 bytes, and free again once the stream is through.
using MergeDeviceEntriesKernel = Status(const DeviceEntries& a, std::uint64_t capacity_a,
                                        const DeviceEntries& b, std::uint64_t capacity_b,
                                        const DeviceEntries& out, DataType type, void* workspace,
                                        std::size_t workspace_bytes, void* stream);
using MergeDeviceWorkspaceBytes = std::size_t(std::uint64_t capacity_a, std::uint64_t capacity_b);

// array[index] = the element of type `type` that its entry's value, divided by `divisor` (1: a sum;
// ranks: a mean), rounds to, as ReduceKernels divide and narrow. Nothing else of the array is
// written. capacity: of the entries; all indices are below the array's count.
using ScatterDeviceEntriesKernel = Status(const DeviceEntries& entries, std::uint64_t capacity,
                                          std::uint32_t divisor, void* array, DataType type,
                                          void* stream);

// The value of each entry = the accumulator of the array's element at its index, canonical. Writes
// entries.values alone. is_accumulated: the array has accumulators already (a residual), not
// elements.
using GatherDeviceEntriesKernel = Status(const void* array, bool is_accumulated, DataType type,
                                         const DeviceEntries& entries, std::uint64_t capacity,
                                         void* stream);

// Of one kind of device.
struct DeviceEntryKernels {
  MergeDeviceEntriesKernel* merge = nullptr;
  MergeDeviceWorkspaceBytes* merge_workspace_bytes = nullptr;
  ScatterDeviceEntriesKernel* scatter = nullptr;
  GatherDeviceEntriesKernel* gather = nullptr;
};

}  // namespace sparcl::kernels
