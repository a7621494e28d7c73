#pragma once
// e^x in a form that compilers turn into vector instructions. With std::exp, which they do not,
// half of a small model's training was spent in it.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace training {

// Within 1e-7 of e^x, relatively. Below -87 it is 0, above 88 it is e^88; of NaN it is NaN. Cody
// and Waite's reduction to |r| <= ln 2 / 2, and a polynomial for e^r.
inline float vector_exp(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRounding = 12582912.0F;  // 1.5 * 2^23: the sum's low bits are the integer
  const float bounded = std::min(std::max(x, -87.0F), 88.0F);
  const float shifted = bounded * kLog2E + kRounding;
  const float power = shifted - kRounding;
  const float r = bounded - power * kLn2High - power * kLn2Low;
  float series = 1.9875691500e-4F;
  series = series * r + 1.3981999507e-3F;
  series = series * r + 8.3334519073e-3F;
  series = series * r + 4.1665795894e-2F;
  series = series * r + 1.6666665459e-1F;
  series = series * r + 5.0000001201e-1F;
  const float e_to_r = series * r * r + r + 1.0F;
  const auto exponent = std::bit_cast<std::uint32_t>(shifted) << 23;
  const auto result = std::bit_cast<float>(std::bit_cast<std::uint32_t>(e_to_r) + exponent);
  return x != x ? x : x < -87.0F ? 0.0F : result;
}

}  // namespace training
