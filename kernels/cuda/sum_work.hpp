#pragma once
// What launches on sums over ranks are given.

#include "kernels/cuda/entry_work.hpp"
#include "kernels/device_sums.hpp"

namespace sparcl::kernels::cuda {

struct CheckWork {
  DeviceLists lists;
  std::uint64_t elements;
  std::uint64_t list_tiles;  // of each list, one at least
};

struct RoundWork {
  const void* values;
  void* rounded;
  std::uint64_t count;
};

struct RowsWork {
  void* rows;
  std::uint64_t ranks;
  std::uint64_t count;  // of a row
};

struct RestWork {
  DeviceEntries entries;
  std::uint64_t capacity;
  DeviceEntries kept;  // indices nullptr: all are
  std::uint64_t kept_capacity;
  void* residual;
};

struct MeanWork {
  DeviceEntries entries;
  std::uint64_t capacity;
  std::uint32_t divisor;  // of the result's elements
  std::uint32_t ranks;    // what these are divided by, 1: they are means
  void* residual;
};

// Keys of a list's entries, for top-k; and the entries that it has found. A key of 0 is no entry's.
struct KeepWork {
  DeviceEntries list;
  std::uint64_t capacity;
  std::uint64_t* keys;  // of the capacity
  DeviceEntries kept;   // indices: on entry, places in the list
  std::uint64_t k;
};

}  // namespace sparcl::kernels::cuda
