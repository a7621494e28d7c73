#pragma once
// Floats that are hard to round: any pattern of bits, the halves between neighbours of smaller
// types, and what is special.

#include <bit>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace sparcl::test {

inline std::vector<float> float_patterns(std::size_t count, std::uint64_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0.0F,      -0.0F,      1e-40F,   -1e-40F,  448.0F,   464.0F, 465.0F,
                           -448.0F,   57344.0F,   61440.0F, 65504.0F, 65520.0F, 1e30F,  -1e30F,
                           kInfinity, -kInfinity, kNan,     -kNan,    240.5F,   1.0F};
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    auto bits = static_cast<std::uint32_t>(random());
    const unsigned kind = static_cast<unsigned>(random() % 8);
    if (kind == 0) {
      value = special[random() % std::size(special)];
      continue;
    }
    if (kind < 3) bits = (bits & 0xffff0000U) | 0x8000U;  // between two of bfloat16
    if (kind >= 3 && kind < 6) bits = (bits & 0x807fffffU) | (100 + bits % 50) << 23;  // near 1
    if (kind == 5) bits = (bits & 0xfff00000U) | 0x80000U;  // between two of 8 bits
    value = std::bit_cast<float>(bits);
  }
  return values;
}

}  // namespace sparcl::test
