#pragma once
// Block routines for values of 8 bits with scales: a warp takes a group, a lane four neighbours of
// it.

#include "kernels/cuda/ordered_compaction.cuh"
#include "kernels/cuda/scaled_work.hpp"
#include "kernels/cuda/small_float.cuh"

namespace sparcl::kernels::cuda {

constexpr unsigned kScaledEach = 4;
static_assert(kDeviceScaledGroup == kScaledEach * kWarp);
constexpr int kMinScale = -149, kMaxScale = 121,
              kScaleBias = 150;  // exponents of float32's least unit, of what 127 times fits
constexpr double kMaxCode = 127;

struct alignas(16) Floats {
  float x[kScaledEach];
};

// 2^exponent, of normal numbers.
__device__ inline double power_of_two(int exponent) {
  return bits_as<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// The exponent with which `largest` > 0 rounds to at most 127. With the largest exponent, after
// which the value would be infinite, the code is limited to 127.
__device__ inline int scale_for(float largest) {
  const auto size = static_cast<double>(largest);  // a normal number, even if it was a denormal
  const int exponent = static_cast<int>(bits_as<std::uint64_t>(size) >> 52) - 1023 - 6;
  const int scale = exponent < kMinScale ? kMinScale : exponent;
  if (rint(size * power_of_two(-scale)) <= kMaxCode) return scale;
  return scale < kMaxScale ? scale + 1 : kMaxScale;
}

// The group that a warp handles, and the location of a lane's part of it.
struct ScaledPlace {
  std::uint64_t group, first;
  unsigned count;  // of the lane's values

  __device__ explicit ScaledPlace(const ScaledWork& work)
      : group(std::uint64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp),
        first(group * kDeviceScaledGroup + kScaledEach * (threadIdx.x % kWarp)) {
    const std::uint64_t there = *work.count, all = there < work.capacity ? there : work.capacity;
    count = first >= all                ? 0
            : all - first < kScaledEach ? static_cast<unsigned>(all - first)
                                        : kScaledEach;
  }
  // Whether the group has any: the same in all lanes, as the first lane has the first.
  __device__ bool is_any() const { return __shfl_sync(kAllLanes, count, 0) != 0; }
};

__device__ inline Floats load_floats(const float* from, unsigned count) {
  if (count == kScaledEach && reinterpret_cast<std::uintptr_t>(from) % sizeof(Floats) == 0)
    return *reinterpret_cast<const Floats*>(from);
  Floats values;
  for (unsigned n = 0; n < kScaledEach; ++n) values.x[n] = n < count ? from[n] : 0;
  return values;
}
__device__ inline void store_floats(const Floats& values, float* to, unsigned count) {
  if (count == kScaledEach && reinterpret_cast<std::uintptr_t>(to) % sizeof(Floats) == 0) {
    *reinterpret_cast<Floats*>(to) = values;
    return;
  }
  for (unsigned n = 0; n < kScaledEach; ++n) {
    if (n < count) to[n] = values.x[n];
  }
}

// The largest of a warp's numbers, in all lanes.
__device__ inline std::uint32_t largest_of_warp(std::uint32_t own) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    const std::uint32_t other = __shfl_down_sync(kAllLanes, own, step);
    own = other > own ? other : own;
  }
  return __shfl_sync(kAllLanes, own, 0);
}

// Handles a group with an infinity or NaN. False if there is no slot for it.
__device__ inline bool keep_exactly(const ScaledWork& work, const ScaledPlace& place,
                                    const Floats& values) {
  const unsigned lane = threadIdx.x % kWarp;
  std::uint64_t slot = 0;
  if (lane == 0)
    slot = atomicAdd(reinterpret_cast<unsigned long long*>(work.scaled.exact_count), 1ULL);
  slot = __shfl_sync(kAllLanes, slot, 0);
  const bool has_room = slot < work.scaled.exact_capacity;
  if (lane == 0) {
    work.scaled.exponents[place.group] =
        has_room ? DeviceScaledValues::kExact : DeviceScaledValues::kLost;
    reinterpret_cast<std::uint32_t*>(work.scaled.codes)[place.group * kWarp] =
        static_cast<std::uint32_t>(slot);
  }
  if (has_room)
    store_floats(values, work.scaled.exact + slot * kDeviceScaledGroup + kScaledEach * lane,
                 kScaledEach);
  return has_room;
}

__device__ inline Floats no_numbers() {
  Floats nan;
  for (unsigned n = 0; n < kScaledEach; ++n) nan.x[n] = bits_as<float>(std::uint32_t{0x7fc00000});
  return nan;
}

__device__ inline void encode_scaled_group(const ScaledWork& work) {
  const ScaledPlace place(work);
  if (!place.is_any()) return;
  Floats values = load_floats(work.values + place.first, place.count);
  std::uint32_t size = 0;
  for (unsigned n = 0; n < kScaledEach; ++n) {
    const std::uint32_t own = bits_as<std::uint32_t>(values.x[n]) & 0x7fffffffU;
    size = own > size ? own : size;
  }
  const std::uint32_t largest = largest_of_warp(size);
  if (largest >= 0x7f800000U) {
    if (!keep_exactly(work, place, values)) values = no_numbers();
  } else {
    const int scale = largest == 0 ? kMinScale : scale_for(bits_as<float>(largest));
    const double up = power_of_two(-scale), down = power_of_two(scale);
    std::uint32_t codes = 0;
    for (unsigned n = 0; n < kScaledEach; ++n) {
      double code = rint(static_cast<double>(values.x[n]) * up);
      code = code > kMaxCode ? kMaxCode : code < -kMaxCode ? -kMaxCode : code;
      codes |= (static_cast<std::uint32_t>(static_cast<int>(code)) & 0xffU) << (8 * n);
      values.x[n] = static_cast<float>(static_cast<int>(code) * down);
    }
    reinterpret_cast<std::uint32_t*>(work.scaled.codes)[place.first / kScaledEach] = codes;
    if (threadIdx.x % kWarp == 0)
      work.scaled.exponents[place.group] = static_cast<std::uint16_t>(scale + kScaleBias);
  }
  if (work.rounded != nullptr) store_floats(values, work.rounded + place.first, place.count);
}

__device__ inline void decode_scaled_group(const ScaledWork& work) {
  const ScaledPlace place(work);
  if (!place.is_any()) return;
  const auto* const words = reinterpret_cast<const std::uint32_t*>(work.scaled.codes);
  const std::uint16_t exponent = work.scaled.exponents[place.group];
  Floats values;
  if (exponent == DeviceScaledValues::kExact) {
    const std::uint32_t slot = words[place.group * kWarp];
    const bool is_there = slot < work.scaled.exact_capacity;
    const float* const from =
        work.scaled.exact + slot * kDeviceScaledGroup + kScaledEach * (threadIdx.x % kWarp);
    values = is_there ? load_floats(from, kScaledEach) : no_numbers();
  } else {
    const std::uint32_t codes = words[place.first / kScaledEach];
    const bool is_scale = exponent <= kMaxScale + kScaleBias;
    const double scale = power_of_two(is_scale ? static_cast<int>(exponent) - kScaleBias : 0);
    for (unsigned n = 0; n < kScaledEach; ++n)
      values.x[n] = static_cast<float>(static_cast<std::int8_t>(codes >> (8 * n) & 0xffU) * scale);
    if (!is_scale) values = no_numbers();
  }
  store_floats(values, work.rounded + place.first, place.count);
}

}  // namespace sparcl::kernels::cuda
