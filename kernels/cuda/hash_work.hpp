#pragma once
// Arguments of launches of the state hash.

#include "kernels/cuda/device_work.hpp"
#include "kernels/device_hash.hpp"

namespace sparcl::kernels::cuda {

struct HashWork {
  const void* array;
  std::uint64_t count;
  HashPlace place;
  DeviceHash* total;       // added to; nullptr: not wanted
  DeviceHash* block_sums;  // of hashed_blocks(), added to; nullptr: not wanted
};

}  // namespace sparcl::kernels::cuda
