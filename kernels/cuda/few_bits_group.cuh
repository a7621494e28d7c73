#pragma once
// Block routine that rounds to 4 or 2 bits with a bfloat16 scale: a warp takes a group, a lane four
// neighbours of it.

#include "kernels/cuda/scaled_group.cuh"
#include "kernels/group_levels.hpp"

namespace sparcl::kernels::cuda {

constexpr std::uint32_t kSizeBits = 0x7fffffffU, kNotFinite = 0x7f800000U;

// A lane's values of a group; +0 behind the last.
struct LaneValues {
  std::uint32_t bits[kScaledEach];
  unsigned count;
};

// The levels of a group, as GroupLevels of the host (src/sparse/parts/scaled_groups.hpp).
template <unsigned kBits>
struct WarpLevels {
  static constexpr unsigned kSizes = kBits == 4 ? 8 : 2;
  float scale;
  unsigned first;  // the smallest size is first * scale

  __device__ WarpLevels(std::uint16_t upper_half, bool with_zero)
      : scale(bits_as<float>(std::uint32_t{upper_half} << 16)),
        first(kBits == 2 && !with_zero ? 2 : 0) {}
  __device__ std::uint32_t nearest(std::uint32_t size) const {
    unsigned place = 0;
    for (unsigned i = 0; i + 1 < kSizes; ++i) {
      const float limit = (static_cast<float>(first + i) + 0.5F) * scale;
      place += size > bits_as<std::uint32_t>(limit) ? 1 : 0;
    }
    return bits_as<std::uint32_t>(static_cast<float>(first + place) * scale);
  }
};

__device__ inline std::uint32_t sum_of_warp(std::uint32_t own) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2)
    own += __shfl_down_sync(kAllLanes, own, step);
  return __shfl_sync(kAllLanes, own, 0);
}

// Whether all values of the group are levels. -0 is none.
template <unsigned kBits>
__device__ inline bool warp_contains(const WarpLevels<kBits>& levels, const LaneValues& own) {
  bool differs = false;
  for (unsigned n = 0; n < kScaledEach; ++n) {
    const std::uint32_t size = own.bits[n] & kSizeBits;
    const bool is_level = levels.nearest(size) == size && own.bits[n] != kSizeBits + 1;
    differs = differs || (n < own.count && !is_level);
  }
  return __ballot_sync(kAllLanes, differs) == 0;
}

template <unsigned kBits>
__device__ inline bool is_exact_group(const LaneValues& own, std::uint32_t largest) {
  for (unsigned level = kBits == 4 ? 7 : 3; level > 0; --level) {
    const auto scale = bits_as<std::uint32_t>(bits_as<float>(largest) / static_cast<float>(level));
    const bool with_zero = kBits == 2 && level == 1;
    if ((scale & 0xffffU) != 0 || scale == 0 || scale >> 16 > max_group_scale(kBits, with_zero))
      continue;
    const WarpLevels<kBits> levels(static_cast<std::uint16_t>(scale >> 16), with_zero);
    if (warp_contains(levels, own)) return true;
  }
  return false;
}

// The sizes of a lane's values in [0, 2^kFitBits); the warp's sums.
struct WarpSizes {
  std::uint32_t each[kScaledEach];
  unsigned own;
  std::uint32_t count, sum;

  __device__ WarpSizes(const LaneValues& values, int exponent) : own(values.count) {
    const double up = power_of_two(exponent);
    std::uint32_t own_sum = 0;
    for (unsigned n = 0; n < kScaledEach; ++n) {
      const auto size = static_cast<double>(bits_as<float>(values.bits[n] & kSizeBits));
      each[n] = static_cast<std::uint32_t>(size * up);
      own_sum += each[n];
    }
    count = sum_of_warp(own);
    sum = sum_of_warp(own_sum);
  }
  __device__ LevelFit fit(unsigned low, unsigned high) const {
    LevelFit best;
    std::uint32_t limit = sum / count;
    for (int turn = 0; turn < kFitTurns; ++turn) {
      std::uint32_t above = 0;  // below bit 24 their sum, from there on their number
      for (unsigned n = 0; n < kScaledEach; ++n)
        above += n < own && each[n] >= limit ? each[n] | std::uint32_t{1} << 24 : 0;
      above = sum_of_warp(above);
      best = level_fit({count, sum, above >> 24, above & 0xffffffU}, low, high);
      limit = best.limit(low + high);
    }
    return best;
  }
};
static_assert(kFitBits + 7 <= 24 && kDeviceScaledGroup < 256);

__device__ inline WarpLevels<2> two_bit_levels(const LaneValues& own, std::uint32_t largest) {
  const auto size = static_cast<double>(bits_as<float>(largest));  // a normal number
  const int power = static_cast<int>(bits_as<std::uint64_t>(size) >> 52) - 1023;
  const int exponent = kFitBits - 1 - power;
  bool has_zero = false;
  for (unsigned n = 0; n < kScaledEach; ++n)
    has_zero = has_zero || (n < own.count && (own.bits[n] & kSizeBits) == 0);
  has_zero = __ballot_sync(kAllLanes, has_zero) != 0;
  const WarpSizes sizes(own, exponent);
  const LevelFit with_zero = sizes.fit(0, 1);
  const LevelFit without = has_zero ? LevelFit{} : sizes.fit(2, 3);
  const bool takes_zero = !without.is_better_than(with_zero);
  const LevelFit& fit = takes_zero ? with_zero : without;
  const double scale =
      static_cast<double>(fit.product) / static_cast<double>(fit.square) * power_of_two(-exponent);
  return {nearest_group_scale(bits_as<std::uint32_t>(static_cast<float>(scale)),
                              max_group_scale(2, takes_zero)),
          takes_zero};
}

template <unsigned kBits>
__device__ inline WarpLevels<kBits> levels_for(const LaneValues& own, std::uint32_t largest) {
  if constexpr (kBits == 2) {
    return two_bit_levels(own, largest);
  } else {
    return {nearest_group_scale(bits_as<std::uint32_t>(bits_as<float>(largest) / 7.0F),
                                max_group_scale(kBits, true)),
            true};
  }
}

template <unsigned kBits>
__device__ inline void round_group_to(const ScaledWork& work) {
  const ScaledPlace place(work);
  if (!place.is_any()) return;
  Floats values = load_floats(work.values + place.first, place.count);
  LaneValues own{{}, place.count};
  std::uint32_t size = 0;
  for (unsigned n = 0; n < kScaledEach; ++n) {
    own.bits[n] = bits_as<std::uint32_t>(values.x[n]);
    size = (own.bits[n] & kSizeBits) > size ? own.bits[n] & kSizeBits : size;
  }
  const std::uint32_t largest = largest_of_warp(size);
  if (largest == 0) {
    for (float& value : values.x) value = 0;
  } else if (largest < kNotFinite && !is_exact_group<kBits>(own, largest)) {
    const WarpLevels<kBits> levels = levels_for<kBits>(own, largest);
    for (unsigned n = 0; n < kScaledEach; ++n) {
      const std::uint32_t rounded = levels.nearest(own.bits[n] & kSizeBits);
      values.x[n] = bits_as<float>(rounded == 0 ? 0 : rounded | (own.bits[n] & (kSizeBits + 1)));
    }
  }
  store_floats(values, work.rounded + place.first, place.count);
}

}  // namespace sparcl::kernels::cuda
