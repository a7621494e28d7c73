#pragma once
// Rounding to 4 and 2 bits as docs/decisions 0035 defines it, a value at a time.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace sparcl::test {

struct FewBitsLevels {
  std::vector<double> sizes;  // ascending
  double scale;

  double nearest(double size) const {
    double best = sizes[0] * scale;
    for (const double level : sizes) {
      if (std::abs(size - level * scale) < std::abs(size - best)) best = level * scale;
    }
    return best;
  }
};

inline const std::vector<double> kSevenLevels{0, 1, 2, 3, 4, 5, 6, 7}, kTailLevels{2, 3},
    kZeroLevels{0, 1};

// The nearest bfloat16 from the smallest one to the largest whose top level is finite.
inline double few_bits_scale(float scale, double top) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(scale);
  bits = std::max<std::uint32_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16, 1) << 16;
  while (bits >= 0x7f800000 ||
         top * static_cast<double>(std::bit_cast<float>(bits)) > 3.4028234663852886e38)
    bits -= 0x10000;
  return static_cast<double>(std::bit_cast<float>(bits));
}

inline bool has_exact_levels(const std::vector<double>& sizes, const std::vector<float>& group) {
  double largest = 0;
  for (const float value : group) {
    if (value == 0 && std::signbit(value)) return false;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  for (const double level : sizes) {
    if (level == 0) continue;
    const double scale = few_bits_scale(static_cast<float>(largest / level), sizes.back());
    const FewBitsLevels levels{sizes, scale};
    if (scale * level == largest && std::ranges::all_of(group, [&](float value) {
          const double size = std::abs(static_cast<double>(value));
          return levels.nearest(size) == size;
        }))
      return true;
  }
  return false;
}

// Four steps of Lloyd's algorithm on integers of 16 bits: product and square of least squares.
struct FewBitsFit {
  std::uint64_t product = 0, square = 1;
};
inline FewBitsFit few_bits_fit(const std::vector<std::uint64_t>& sizes, std::uint64_t low,
                               std::uint64_t high) {
  std::uint64_t limit = 0;
  for (const std::uint64_t size : sizes) limit += size;
  limit /= sizes.size();
  FewBitsFit fit;
  for (int turn = 0; turn < 4; ++turn) {
    fit = {0, 0};
    for (const std::uint64_t size : sizes) {
      const std::uint64_t level = size >= limit ? high : low;
      fit.product += level * size;
      fit.square += level * level;
    }
    limit = (low + high) * fit.product / (2 * fit.square);
  }
  return fit;
}

inline FewBitsLevels two_bit_reference(const std::vector<float>& group, double largest) {
  const int exponent = 15 - std::ilogb(largest);
  std::vector<std::uint64_t> sizes;
  for (const float value : group)
    sizes.push_back(
        static_cast<std::uint64_t>(std::ldexp(std::abs(static_cast<double>(value)), exponent)));
  const bool has_zero = std::ranges::count(group, 0.0F) > 0;
  const FewBitsFit zero = few_bits_fit(sizes, 0, 1), tail = few_bits_fit(sizes, 2, 3);
  const bool takes_tail = !has_zero && tail.product * tail.product * zero.square >
                                           zero.product * zero.product * tail.square;
  const FewBitsFit& fit = takes_tail ? tail : zero;
  const double scale =
      std::ldexp(static_cast<double>(fit.product) / static_cast<double>(fit.square), -exponent);
  const std::vector<double>& levels = takes_tail ? kTailLevels : kZeroLevels;
  return {levels, few_bits_scale(static_cast<float>(scale), levels.back())};
}

// One group of up to 128 values.
inline void round_few_bits(int bits, std::vector<float>& group) {
  double largest = 0;
  for (const float value : group) {
    if (!std::isfinite(value)) return;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const bool is_four = bits == 4;
  if (largest > 0 &&
      (is_four ? has_exact_levels(kSevenLevels, group)
               : has_exact_levels(kTailLevels, group) || has_exact_levels(kZeroLevels, group)))
    return;
  const FewBitsLevels levels =
      largest == 0 ? FewBitsLevels{{0}, 1}
      : is_four    ? FewBitsLevels{kSevenLevels, few_bits_scale(static_cast<float>(largest) / 7, 7)}
                   : two_bit_reference(group, largest);
  for (float& value : group) {
    const auto size = static_cast<float>(levels.nearest(std::abs(static_cast<double>(value))));
    value = size == 0 ? 0 : std::copysign(size, value);
  }
}

}  // namespace sparcl::test
