#pragma once
// What tests of top-k send: ties, zeros, and, where wanted, NaN, infinities, -0 and the largest
// integers.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
T special_of(sparclDataType_t type, unsigned number) {
  const bool is_negative = number % 2 != 0;
  if constexpr (std::is_floating_point_v<T>) {
    const T values[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                        T{0}, std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max()};
    return std::copysign(values[number / 2 % 5], is_negative ? T{-1} : T{1});
  } else if constexpr (sizeof(T) == 2) {
    const std::uint16_t half[] = {0x7e01, 0x7c00, 0, 1, 0x7bff},
                        brain[] = {0x7fc1, 0x7f80, 0, 1, 0x7f7f};
    const std::uint16_t bits = (type == sparclFloat16 ? half : brain)[number / 2 % 5];
    return static_cast<T>(bits | (is_negative ? 0x8000 : 0));
  } else {
    return is_negative ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
}

template <class T>
T number_of(sparclDataType_t type, float value) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
  if (type == sparclBfloat16) return static_cast<T>(std::bit_cast<std::uint32_t>(value) >> 16);
  if (type == sparclFloat16) {  // of what is below 2 and not small
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::abs(value) < 0.01F) return 0;
    return static_cast<T>((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112U << 10)));
  }
  if (sizeof(T) == 1) return static_cast<T>(std::bit_cast<std::uint32_t>(value) >> 24);
  return static_cast<T>(static_cast<std::int64_t>(value * 1000));
}

template <class T>
std::vector<T> values_of(sparclDataType_t type, int rank, int step, std::size_t count,
                         bool is_special = false) {
  std::mt19937 random(static_cast<unsigned>(100 * rank + step + 1));
  std::vector<T> values(count);
  for (T& value : values) {
    const auto draw = static_cast<unsigned>(random());
    const float magnitude =
        std::sin(static_cast<float>(draw % 977)) * (draw % 5 == 0 ? 1.9F : 0.3F);
    value = draw % 7 == 0 ? T{0} : number_of<T>(type, magnitude);
    if (is_special && draw % 23 == 0) value = special_of<T>(type, draw / 23);
  }
  return values;
}

}  // namespace sparcl::test
