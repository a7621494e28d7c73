#pragma once
// Arguments of launches on sums over ranks.

#include "kernels/cuda/entry_work.hpp"
#include "kernels/device_sums.hpp"

namespace sparcl::kernels::cuda {

struct CheckWork {
  DeviceLists lists;
  std::uint64_t elements;
  std::uint64_t list_tiles;  // of each list, at least one
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
  const void* seen;    // the values that receivers see
  DeviceEntries kept;  // indices nullptr: all are kept
  std::uint64_t kept_capacity;
  void* residual;
};

struct MeanWork {
  DeviceEntries entries;
  std::uint64_t capacity;
  std::uint32_t divisor;  // divisor of the result's elements
  std::uint32_t ranks;    // divisor of the quotients; 1: the elements are means
  void* residual;
};

// Keys of a list's entries, for top-k, and the entries that top-k has found. No entry has key 0.
struct KeepWork {
  DeviceEntries list;
  std::uint64_t capacity;
  std::uint64_t* keys;  // of the capacity
  DeviceEntries kept;   // indices: on entry, indices in the list
  std::uint64_t k;
};

}  // namespace sparcl::kernels::cuda
