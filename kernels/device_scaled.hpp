#pragma once
// Contracts of the kernels that convert float32 values in device memory to 8 bits with scales, and
// back, or round them to 4 or 2 bits. The values that receivers see are bit-identical to those of
// src/sparse/selection/scaled_values. A group of values is codes times a power of two. A group with
// an infinity or NaN is kept exactly, in a slot of its own. Each call enqueues on a stream,
// allocates nothing and does not wait. The device reads the number of values. This header needs no
// CUDA.

#include <cstddef>
#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::kernels {

constexpr std::uint64_t kDeviceScaledGroup =
    128;  // values, from the first on; the last group may be short
constexpr std::uint64_t scaled_groups(std::uint64_t values) {
  return (values + kDeviceScaledGroup - 1) / kDeviceScaledGroup;
}

struct DeviceScaledValues {
  std::int8_t* codes;            // whole groups; aligned to 4 bytes
  std::uint16_t* exponents;      // of each group: its values are code * 2^(exponent - 150)
  float* exact;                  // whole groups that are kept exactly, in any order
  std::uint64_t exact_capacity;  // groups that `exact` has room for; less than 2^32
  std::uint64_t* exact_count;    // one number: how many are kept exactly, also where there is no
                                 // room: these become NaN
  static constexpr std::uint16_t kExact =
      0;  // an exponent: the first four codes are the group's slot in `exact`
  static constexpr std::uint16_t kLost = 0xffff;  // an exponent: there was no slot for the group
};

// values: *count of them, at most capacity. rounded: the values that receivers will see; may be
// `values`; nullptr: not wanted.
using EncodeScaledKernel = Status(const float* values, const std::uint64_t* count,
                                  std::uint64_t capacity, const DeviceScaledValues& scaled,
                                  float* rounded, void* stream);

// Decodes values that may come from another process. Whatever they contain, nothing outside of the
// arrays is read. exact_count is not read.
using DecodeScaledKernel = Status(const DeviceScaledValues& scaled, const std::uint64_t* count,
                                  std::uint64_t capacity, float* values, void* stream);

// Rounds to 4 or 2 bits (`bits`) with a bfloat16 scale for each group, bit-identical to
// src/sparse/selection/group_rounding. Groups with an infinity or NaN are unchanged. rounded may be
// values. There is no kernel for the codes: values between devices are sent as float32.
using RoundGroupsKernel = Status(const float* values, const std::uint64_t* count,
                                 std::uint64_t capacity, unsigned bits, float* rounded,
                                 void* stream);

}  // namespace sparcl::kernels
