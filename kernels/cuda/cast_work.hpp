#pragma once
// Arguments of the launches of the cast.

#include "kernels/cuda/device_work.hpp"

namespace sparcl::kernels::cuda {

struct CastWork {
  const float* values;
  std::uint64_t count;
  void* out;
};

constexpr unsigned kCastItems = 8;  // elements that a thread loads and writes as vectors
constexpr unsigned kCastLoads = 4;  // vector loads in flight at once. Not measured
constexpr std::uint64_t kCastTile = std::uint64_t{kCastItems} * kCastLoads * kThreads;
constexpr std::uint64_t cast_tiles(std::uint64_t count) {
  return (count + kCastTile - 1) / kCastTile;
}

}  // namespace sparcl::kernels::cuda
