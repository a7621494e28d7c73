#include "src/sparse/selection/scaled_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "src/base/float_environment.hpp"
#include "src/sparse/parts/scaled_pieces.hpp"

namespace sparcl::sparse {
namespace {

constexpr int kMinExponent = -149, kMaxExponent = 121;  // of float32
constexpr double kMost = (1 << kScaledBits) - 1;

// The exponent with which the largest magnitude rounds to at most kMost. With the largest exponent,
// after which the value would be infinite, the code is limited to kMost.
int exponent_for(float largest) {
  const int exponent = std::max(kMinExponent, std::ilogb(largest) - (kScaledBits - 1));
  const bool is_too_large =
      std::nearbyint(std::ldexp(static_cast<double>(largest), -exponent)) > kMost;
  return is_too_large ? std::min(exponent + 1, kMaxExponent) : exponent;
}

}  // namespace

void round_to_scaled(const std::byte* values, std::size_t count, std::byte* rounded) {
  const FloatEnvironment ieee;
  std::array<float, kScaledGroup> group;
  for (std::size_t at = 0; at < count; at += kScaledGroup) {
    const std::size_t own = std::min(kScaledGroup, count - at);
    std::memcpy(group.data(), values + at * sizeof(float), own * sizeof(float));
    float largest = 0;
    bool is_finite = true;
    for (std::size_t i = 0; i < own; ++i) {
      is_finite = is_finite && std::isfinite(group[i]);
      largest = std::max(largest, std::abs(group[i]));
    }
    if (is_finite && largest > 0) {
      const int exponent = exponent_for(largest);
      const double scale = std::ldexp(1.0, exponent), inverse = std::ldexp(1.0, -exponent);
      // + 0.0: of -0, +0
      for (std::size_t i = 0; i < own; ++i) {
        const double digits = std::clamp(std::nearbyint(group[i] * inverse), -kMost, kMost);
        group[i] = static_cast<float>(digits * scale + 0.0);
      }
    } else if (is_finite) {
      std::fill_n(group.begin(), own, 0.0F);
    }
    std::memcpy(rounded + at * sizeof(float), group.data(), own * sizeof(float));
  }
}

}  // namespace sparcl::sparse
