#pragma once
// Contracts of the kernels that make a sum over ranks of what each has brought, in device memory,
// and that leave in a residual what was not sent. Each call enqueues on a stream, allocates nothing
// and waits for nothing; how many entries there are is read on the device. Nothing of CUDA is
// needed to include this.

#include <cstddef>
#include <cstdint>

#include "kernels/device_entries.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// What came from other ranks: `lists` times `stride_bytes`, a count in the first 8 bytes and
// indices from the 16th on.
struct DeviceLists {
  void* bytes;
  std::uint64_t lists;
  std::uint64_t stride_bytes;  // 8 times a whole number
  std::uint64_t capacity;      // of each
};
// A list that is none has no entries afterwards: one of more than the capacity, whose indices do
// not ascend strictly, or are not below `elements`. An exchange that was ended half-way leaves
// anything, and what comes after it still runs.
using CheckDeviceListsKernel = Status(const DeviceLists& lists, std::uint64_t elements,
                                      void* stream);

// rounded[i] = what receivers see of values[i] where it is sent as a `sent`: rounded to it and
// widened again. Both are accumulators of that type, and may be the same.
using RoundDeviceValuesKernel = Status(const void* values, std::uint64_t count, DataType sent,
                                       void* rounded, void* stream);

// rows: one of each rank, `count` accumulators of `type` each. The first becomes the sum in the
// ranks' tree (rank_tree.hpp), the others something.
using SumDeviceRowsKernel = Status(void* rows, std::uint32_t ranks, std::uint64_t count,
                                   DataType type, void* stream);

// residual[index] = value - what receivers see of it, for each entry whose index `kept` has, too;
// kept nullptr: for each. +0 where that is all of it, infinities and NaN among them. seen: of each
// entry; accumulators of `type`, as the values and the residual.
using LeaveDeviceRestKernel = Status(const DeviceEntries& entries, std::uint64_t capacity,
                                     const void* seen, const DeviceEntries* kept,
                                     std::uint64_t kept_capacity, DataType type, void* residual,
                                     void* stream);

// residual[index] -= the mean that a result's element is, or, of a sum, that element divided by
// `ranks`: value / divisor, rounded to `type` and widened again, / ranks. +0 where that is all of
// it, or no number. Of float types.
using LeaveDeviceMeanKernel = Status(const DeviceEntries& entries, std::uint64_t capacity,
                                     std::uint32_t divisor, std::uint32_t ranks, DataType type,
                                     void* residual, void* stream);

// The k entries of a list with the largest magnitude keys (select.hpp), zeros among them, of equals
// the first; all where there are no more. kept: room for k, and not the list. Not of uint64, whose
// keys leave no room for what is no entry. The workspace is aligned to 16 bytes, and free again
// once the stream is through.
using KeepLargestEntriesKernel = Status(const DeviceEntries& list, std::uint64_t capacity,
                                        std::uint64_t k, const DeviceEntries& kept, DataType type,
                                        void* workspace, std::size_t workspace_bytes, void* stream);
using KeepLargestWorkspaceBytes = std::size_t(std::uint64_t capacity, std::uint64_t k);

struct DeviceSumKernels {
  CheckDeviceListsKernel* check_lists = nullptr;
  RoundDeviceValuesKernel* round = nullptr;
  SumDeviceRowsKernel* sum_rows = nullptr;
  LeaveDeviceRestKernel* leave_rest = nullptr;
  LeaveDeviceMeanKernel* leave_mean = nullptr;
  KeepLargestEntriesKernel* keep_largest = nullptr;
  KeepLargestWorkspaceBytes* keep_largest_workspace_bytes = nullptr;
};

}  // namespace sparcl::kernels
