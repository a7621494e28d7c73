#pragma once
// Contracts of the kernels that sum the contributions of all ranks in device memory, and that keep
// unsent values in a residual. Each call enqueues on a stream, allocates nothing and does not wait.
// The device reads the number of entries. This header needs no CUDA.

#include <cstddef>
#include <cstdint>

#include "kernels/device_entries.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::kernels {

// Lists from other ranks: `lists` times `stride_bytes`, with a count in the first 8 bytes and
// indices from the 16th on.
struct DeviceLists {
  void* bytes;
  std::uint64_t lists;
  std::uint64_t stride_bytes;  // a multiple of 8
  std::uint64_t capacity;      // of each
};
// Empties each invalid list: more entries than the capacity, indices that do not ascend strictly,
// or indices that are not below `elements`. An interrupted exchange may leave any bytes, and the
// work enqueued after it still runs.
using CheckDeviceListsKernel = Status(const DeviceLists& lists, std::uint64_t elements,
                                      void* stream);

// rounded[i] = the value that receivers see if values[i] is sent as `sent`: rounded to it and
// widened again. Both are accumulators of that type, and may be the same.
using RoundDeviceValuesKernel = Status(const void* values, std::uint64_t count, DataType sent,
                                       void* rounded, void* stream);

// rows: one for each rank, `count` accumulators of `type` each. The first row becomes the sum in
// the ranks' tree (rank_tree.hpp). The other rows are overwritten.
using SumDeviceRowsKernel = Status(void* rows, std::uint32_t ranks, std::uint64_t count,
                                   DataType type, void* stream);

// residual[index] = value - the value that receivers see, for each entry whose index is also in
// `kept`; kept nullptr: for each entry. The rest is +0 if both are equal, also for infinities and
// NaN. seen: one for each entry. All are accumulators of `type`.
using LeaveDeviceRestKernel = Status(const DeviceEntries& entries, std::uint64_t capacity,
                                     const void* seen, const DeviceEntries* kept,
                                     std::uint64_t kept_capacity, DataType type, void* residual,
                                     void* stream);

// residual[index] -= the mean. If the result is a sum, the mean is its element divided by `ranks`:
// value / divisor, rounded to `type` and widened again, / ranks. The rest is +0 if both are equal,
// or if the mean is no number. For float types.
using LeaveDeviceMeanKernel = Status(const DeviceEntries& entries, std::uint64_t capacity,
                                     std::uint32_t divisor, std::uint32_t ranks, DataType type,
                                     void* residual, void* stream);

// The k entries of a list with the largest magnitude keys (select.hpp), zeros included; on a tie
// the first. All entries if there are at most k. kept: room for k, and not the list. Not for
// uint64, whose keys leave no value for "no entry". The workspace is aligned to 16 bytes, and may
// be reused when the stream's work is done.
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
