#include "src/base/number.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sparcl {
namespace {

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // else only the all-ones pattern is a NaN (OCP 8-bit floating point
                      // specification, E4M3)

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t top_exponent() const { return (1u << exponent_bits) - 1; }
  std::uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  std::uint32_t infinity() const { return top_exponent() << mantissa_bits; }
  std::uint32_t nan() const {
    return has_infinity ? infinity() | 1u << (mantissa_bits - 1) : sign() - 1;
  }
  std::uint32_t largest() const { return has_infinity ? infinity() - 1 : sign() - 2; }
};

constexpr FloatFormat kFloat16Format{5, 10, true};
constexpr FloatFormat kBfloat16Format{8, 7, true};
constexpr FloatFormat kFloat8e4m3Format{4, 3, false};
constexpr FloatFormat kFloat8e5m2Format{5, 2, true};

double decode(std::uint32_t bits, const FloatFormat& format) {
  const std::uint32_t size = bits & (format.sign() - 1);
  const double sign = (bits & format.sign()) != 0 ? -1.0 : 1.0;
  const std::uint32_t exponent = size >> format.mantissa_bits;
  const std::uint32_t mantissa = size & ((1u << format.mantissa_bits) - 1);
  if (size > format.largest()) {
    const bool infinite = format.has_infinity && mantissa == 0;
    return std::copysign(infinite ? std::numeric_limits<double>::infinity()
                                  : std::numeric_limits<double>::quiet_NaN(),
                         sign);
  }
  const int scale =
      (exponent == 0 ? 1 : static_cast<int>(exponent)) - format.bias() - format.mantissa_bits;
  const std::uint32_t significand =
      exponent == 0 ? mantissa : mantissa | 1u << format.mantissa_bits;
  return std::ldexp(sign * significand, scale);
}

std::uint32_t encode(double value, const FloatFormat& format) {
  if (std::isnan(value)) return format.nan();
  const std::uint32_t sign = std::signbit(value) ? format.sign() : 0;
  const double size = std::fabs(value);
  const std::uint32_t too_large = format.has_infinity ? format.infinity() : format.largest();
  if (std::isinf(size)) return sign | too_large;
  int exponent = 0;
  std::frexp(size, &exponent);  // size < 2^exponent
  const int unit = std::max(exponent - 1, 1 - format.bias()) - format.mantissa_bits;
  const double significand =
      std::nearbyint(std::ldexp(size, -unit));  // ties to even, in the default rounding mode
  if (significand == 0) return sign;
  // A significand that was rounded up to the next power of two, or from a subnormal to a normal
  // number, carries into the exponent.
  const int biased = unit + format.mantissa_bits + format.bias() - 1;
  if (biased > static_cast<int>(format.top_exponent())) return sign | too_large;
  const std::uint32_t bits = (static_cast<std::uint32_t>(biased) << format.mantissa_bits) +
                             static_cast<std::uint32_t>(significand);
  return sign | (bits > format.largest() ? too_large : bits);
}

template <class T>
double load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

template <class T>
void store(double value, std::byte* at) {
  T result = 0;
  if constexpr (std::numeric_limits<T>::is_integer) {
    const double rounded = std::isnan(value) ? 0.0 : std::nearbyint(value);
    // 2^63 and 2^64 are doubles, the largest integers below them are not: >= instead of >.
    const double top = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (rounded >= top) {
      result = std::numeric_limits<T>::max();
    } else if (rounded <= static_cast<double>(std::numeric_limits<T>::min())) {
      result = std::numeric_limits<T>::min();
    } else {
      result = static_cast<T>(rounded);
    }
  } else {
    result = static_cast<T>(value);
  }
  std::memcpy(at, &result, sizeof result);
}

void store_small(std::uint32_t bits, std::size_t bytes, std::byte* at) {
  const auto low = static_cast<std::uint8_t>(bits);
  const auto both = static_cast<std::uint16_t>(bits);
  if (bytes == 1) std::memcpy(at, &low, 1);
  if (bytes == 2) std::memcpy(at, &both, 2);
}

std::uint32_t load_small(std::size_t bytes, const std::byte* at) {
  std::uint16_t both = 0;
  std::memcpy(&both, at, bytes);  // little endian, as all of the project is
  return both;
}

const FloatFormat* small_format(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return &kFloat16Format;
    case DataType::kBfloat16:
      return &kBfloat16Format;
    case DataType::kFloat8e4m3:
      return &kFloat8e4m3Format;
    case DataType::kFloat8e5m2:
      return &kFloat8e5m2Format;
    default:
      return nullptr;
  }
}

// Calls visit with a zero of the C++ type that holds the elements: all but the small floats have
// one.
template <class Visit>
auto with_native(DataType type, Visit visit) {
  switch (type) {
    case DataType::kInt8:
      return visit(std::int8_t{0});
    case DataType::kInt16:
      return visit(std::int16_t{0});
    case DataType::kUint16:
      return visit(std::uint16_t{0});
    case DataType::kInt32:
      return visit(std::int32_t{0});
    case DataType::kUint32:
      return visit(std::uint32_t{0});
    case DataType::kInt64:
      return visit(std::int64_t{0});
    case DataType::kUint64:
      return visit(std::uint64_t{0});
    case DataType::kFloat32:
      return visit(float{0});
    case DataType::kFloat64:
      return visit(double{0});
    default:  // uint8, bool
      return visit(std::uint8_t{0});
  }
}

}  // namespace

double load_number(DataType type, const std::byte* at) {
  if (const FloatFormat* format = small_format(type))
    return decode(load_small(element_bytes(type), at), *format);
  return with_native(type, [&](auto zero) { return load<decltype(zero)>(at); });
}

void store_number(DataType type, double value, std::byte* at) {
  if (const FloatFormat* format = small_format(type)) {
    store_small(encode(value, *format), element_bytes(type), at);
    return;
  }
  if (type == DataType::kBool) value = value != 0 ? 1 : 0;
  with_native(type, [&](auto zero) { store<decltype(zero)>(value, at); });
}

}  // namespace sparcl
