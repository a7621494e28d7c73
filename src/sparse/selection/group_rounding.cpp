#include "src/sparse/selection/group_rounding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "src/base/float_environment.hpp"
#include "src/sparse/parts/scaled_groups.hpp"

namespace sparcl::sparse {
namespace {

using kernels::kFitBits;
using kernels::kFitTurns;
using kernels::LevelFit;
using kernels::nearest_group_scale;

constexpr std::uint32_t kSignBit = 0x80000000, kFirstNotFinite = 0x7f800000;

struct Group {
  std::array<std::uint32_t, kScaledGroup> bits;
  std::size_t count;

  std::uint32_t largest() const {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < count; ++i) most = std::max(most, bits[i] & ~kSignBit);
    return most;
  }
};

// Sizes in [0, 2^kFitBits), relative to the largest.
struct Sizes {
  std::array<std::uint32_t, kScaledGroup> each;
  std::size_t count;
  std::uint32_t sum = 0;
  bool has_zero = false;
  double unit;

  Sizes(const Group& group, float largest) : count(group.count) {
    const int exponent = kFitBits - 1 - std::ilogb(largest);
    const double up = std::ldexp(1.0, exponent);
    unit = std::ldexp(1.0, -exponent);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = group.bits[i] & ~kSignBit;
      each[i] = static_cast<std::uint32_t>(
          static_cast<std::int32_t>(static_cast<double>(std::bit_cast<float>(bits)) * up));
      sum += each[i];
      has_zero = has_zero || bits == 0;
    }
  }
};

LevelFit fit_levels(const Sizes& sizes, std::uint64_t low, std::uint64_t high) {
  LevelFit fit;
  std::uint32_t limit = sizes.sum / static_cast<std::uint32_t>(sizes.count);
  for (int turn = 0; turn < kFitTurns; ++turn) {
    kernels::GroupSizes seen{static_cast<std::uint32_t>(sizes.count), sizes.sum};
    for (std::size_t i = 0; i < sizes.count; ++i) {
      const std::uint32_t mask = sizes.each[i] >= limit ? ~std::uint32_t{0} : 0;
      seen.above += mask & 1;
      seen.above_sum += mask & sizes.each[i];
    }
    fit = level_fit(seen, low, high);
    limit = fit.limit(low + high);
  }
  return fit;
}

std::uint16_t two_bit_word(const Group& group, float largest) {
  const Sizes sizes(group, largest);
  const LevelFit with_zero = fit_levels(sizes, 0, 1);
  const LevelFit without = sizes.has_zero ? LevelFit{} : fit_levels(sizes, 2, 3);
  const bool takes_zero = !without.is_better_than(with_zero);
  const LevelFit& fit = takes_zero ? with_zero : without;
  const double scale =
      static_cast<double>(fit.product) / static_cast<double>(fit.square) * sizes.unit;
  const std::uint16_t word =
      nearest_group_scale(std::bit_cast<std::uint32_t>(static_cast<float>(scale)),
                          GroupLevels::max_scale(ValueForm::kScaled2, takes_zero));
  return static_cast<std::uint16_t>(word | (takes_zero ? GroupLevels::kWithZero : 0));
}

void round_group(ValueForm form, Group& group) {
  const std::uint32_t largest = group.largest();
  if (largest >= kFirstNotFinite) return;
  if (largest == 0) {
    std::fill_n(group.bits.begin(), group.count, 0U);
    return;
  }
  if (exact_levels(form, group.bits.data(), group.count)) return;
  const float size = std::bit_cast<float>(largest);
  const std::uint16_t word = form == ValueForm::kScaled4
                                 ? nearest_group_scale(std::bit_cast<std::uint32_t>(size / 7),
                                                       GroupLevels::max_scale(form, true))
                                 : two_bit_word(group, size);
  const GroupLevels levels(form, word);
  std::array<std::uint8_t, kScaledGroup> places;
  levels.find(group.bits.data(), group.count, places.data());
  for (std::size_t i = 0; i < group.count; ++i) {
    const std::uint32_t rounded = levels.sizes()[places[i]];
    group.bits[i] = rounded == 0 ? 0 : rounded | (group.bits[i] & kSignBit);
  }
}

}  // namespace

void round_to_groups(ValueForm form, const std::byte* values, std::size_t count,
                     std::byte* rounded) {
  const FloatEnvironment ieee;
  Group group;
  for (std::size_t at = 0; at < count; at += kScaledGroup) {
    group.count = std::min(kScaledGroup, count - at);
    std::memcpy(group.bits.data(), values + at * sizeof(float), group.count * sizeof(float));
    round_group(form, group);
    std::memcpy(rounded + at * sizeof(float), group.bits.data(), group.count * sizeof(float));
  }
}

}  // namespace sparcl::sparse
