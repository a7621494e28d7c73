#pragma once
// float32 values for tests of scaled ones.

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "src/sparse/selection/group_rounding.hpp"
#include "src/sparse/selection/scaled_values.hpp"

namespace sparcl::test {

// Groups of all magnitudes: numbers near each other and far apart, halves of units, nothing but
// zeros, the least and the largest numbers; with infinities and NaNs in one group of `special`, if
// that is not 0.
inline std::vector<float> float_groups(std::size_t count, std::uint64_t seed, unsigned special) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (std::size_t at = 0; at < count; at += sparse::kScaledGroup) {
    const int exponent = static_cast<int>(random() % 277) - 149;
    const std::uint64_t kind = random() % 8;
    for (std::size_t i = at; i < std::min(count, at + sparse::kScaledGroup); ++i) {
      const auto noise = static_cast<float>(static_cast<double>(random() % 2'000'001) / 1e6 - 1);
      values[i] = std::ldexp(noise, exponent);
      if (kind == 0) values[i] = random() % 2 == 0 ? 0.0F : -0.0F;
      if (kind == 1)
        values[i] = std::ldexp(static_cast<float>(random() % 509) - 254, exponent - 8) /
                    2;  // halves of units
      if (kind == 2) values[i] = std::ldexp(noise, static_cast<int>(random() % 277) - 149);
      if (kind == 3)
        values[i] = random() % 64 == 0 ? std::numeric_limits<float>::max() : noise * 1e38F;
      if (kind == 4)
        values[i] = static_cast<float>(random() % 300) * std::numeric_limits<float>::denorm_min();
    }
    if (special == 0 || random() % special != 0) continue;
    const std::size_t i = at + random() % std::min(count - at, sparse::kScaledGroup);
    values[i] = random() % 2 == 0 ? -std::numeric_limits<float>::infinity()
                                  : std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

inline std::vector<float> rounded_by_host(const std::vector<float>& values) {
  std::vector<float> rounded(values.size());
  sparse::round_to_scaled(reinterpret_cast<const std::byte*>(values.data()), values.size(),
                          reinterpret_cast<std::byte*>(rounded.data()));
  return rounded;
}

inline std::vector<float> rounded_to(sparse::ValueForm form, const std::vector<float>& values) {
  std::vector<float> rounded(values.size());
  sparse::round_to_groups(form, reinterpret_cast<const std::byte*>(values.data()), values.size(),
                          reinterpret_cast<std::byte*>(rounded.data()));
  return rounded;
}

}  // namespace sparcl::test
