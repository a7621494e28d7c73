#pragma once
// Arguments of launches on scaled values.

#include "kernels/cuda/device_work.hpp"
#include "kernels/device_scaled.hpp"

namespace sparcl::kernels::cuda {

struct ScaledWork {
  DeviceScaledValues scaled;
  const std::uint64_t* count;
  std::uint64_t capacity;  // of values
  const float* values;     // encode
  float* rounded;          // the values that receivers see; may be nullptr when encoding
};

// A warp handles a group.
constexpr std::uint64_t scaled_blocks(std::uint64_t values) {
  return (scaled_groups(values) + kThreads / 32 - 1) / (kThreads / 32);
}

}  // namespace sparcl::kernels::cuda
