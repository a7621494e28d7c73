#pragma once
// Converts floats to doubles and back, inline and without branches. base/number.hpp has the
// readable forms, for few elements. Only under a FloatEnvironment.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl::codec {

// Float16 and bfloat16. Their bits, shifted to a double's position, are a number that is too small
// by a power of two. That holds for denormals, too, which become a double's denormals.
template <unsigned kExponentBits, unsigned kMantissaBits>
struct SmallFloat {
  using Bits = std::uint16_t;
  static constexpr unsigned kBias = (1U << (kExponentBits - 1)) - 1;
  static constexpr unsigned kShift = 52 - kMantissaBits;
  static constexpr Bits kInfinity = ((1U << kExponentBits) - 1) << kMantissaBits;
  static constexpr Bits kSign = 1U << 15;

  static double power_of_two(unsigned biased) {
    return std::bit_cast<double>(std::uint64_t{biased} << 52);
  }

  static bool is_finite(Bits bits) { return (bits & ~kSign) < kInfinity; }
  static double load(Bits bits) {
    const auto size =
        std::bit_cast<double>(std::uint64_t{static_cast<Bits>(bits & ~kSign)} << kShift) *
        power_of_two(2046 - kBias);
    return (bits & kSign) != 0 ? -size : size;
  }

  // For a finite number: the nearest, ties to even; infinity if it is too large.
  static Bits store(double value) {
    const double size = std::min(std::fabs(value), power_of_two(1023 + kBias + 1));
    // In a sum with this number the last bit is the type's last bit, so the addition rounds
    // correctly.
    const std::uint64_t exponent =
        std::max<std::uint64_t>(std::bit_cast<std::uint64_t>(size) >> 52, 1023 - kBias + 1);
    const double round = power_of_two(static_cast<unsigned>(exponent) + kShift);
    const double rounded = (size + round) - round;
    const std::uint64_t scaled = std::bit_cast<std::uint64_t>(rounded * power_of_two(kBias));
    return static_cast<Bits>((scaled >> kShift) | (std::signbit(value) ? kSign : 0));
  }
};

template <class T, class B>
struct NativeFloat {
  using Bits = B;
  static bool is_finite(Bits bits) { return std::isfinite(std::bit_cast<T>(bits)); }
  static double load(Bits bits) { return std::bit_cast<T>(bits); }
  static Bits store(double value) { return std::bit_cast<Bits>(static_cast<T>(value)); }
};

// Calls visit with the format of a type; returns false if the type is not a float of at least 16
// bits.
template <class Visit>
bool with_float_format(DataType type, Visit visit) {
  switch (type) {
    case DataType::kFloat16:
      visit(SmallFloat<5, 10>{});
      return true;
    case DataType::kBfloat16:
      visit(SmallFloat<8, 7>{});
      return true;
    case DataType::kFloat32:
      visit(NativeFloat<float, std::uint32_t>{});
      return true;
    case DataType::kFloat64:
      visit(NativeFloat<double, std::uint64_t>{});
      return true;
    default:
      return false;
  }
}

}  // namespace sparcl::codec
