#pragma once
// Changes as codes of 8 bits with one scale a block (docs/reference/wire-format.md, mode added). A
// receiver's new value is its old one plus scale * units(code), rounded to the type. This header
// contains the whole definition; lossy_values.hpp is a sender's choice of codes.

#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl::codec {

// A code is a signed byte other than 0. kInt8: its value in units. kFloat8: its size is 127 minus
// the number's code in the format E4M3, so that the largest numbers have the smallest sizes. A unit
// is the smallest number of the format.
enum class CodeKind : std::uint8_t { kInt8 = 0, kFloat8 = 1 };

constexpr int top_code(CodeKind kind) {
  return kind == CodeKind::kInt8 ? 127 : 126;
}  // the largest size of a code

// The value of a code of this size, 0 (unused) to top_code(), in units.
constexpr std::uint32_t units_of(CodeKind kind, unsigned size) {
  if (kind == CodeKind::kInt8 || size == 0) return size;
  const unsigned e4m3 = 127 - size;
  return e4m3 < 8 ? e4m3 : (8 + e4m3 % 8) << (e4m3 / 8 - 1);
}
constexpr std::uint32_t kTopFloat8Units = units_of(CodeKind::kFloat8, 1);
constexpr std::uint32_t top_units(CodeKind kind) {
  return kind == CodeKind::kInt8 ? 127 : kTopFloat8Units;
}

// The upper half of a double: a normal number, and small enough that no product with units
// overflows.
struct Scale {
  std::uint32_t bits = 0;

  bool valid() const {
    return bits >= std::uint32_t{1} << 20 && bits < std::uint32_t{2047 - 18} << 20;
  }
  double value() const;
};
static_assert(kTopFloat8Units < std::uint32_t{1} << 18);

// Codes exist for floats of at least 16 bits. Smaller elements take no more bytes exactly, and
// integers are not approximated.
constexpr bool takes_codes(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 || type == DataType::kFloat32 ||
         type == DataType::kFloat64;
}

// new_values (may be old_values) = the old values plus their codes. An old value that is not finite
// stays unchanged.
void add_codes(DataType type, CodeKind kind, Scale scale, const std::byte* old_values,
               const std::byte* codes, std::size_t count, std::byte* new_values);

}  // namespace sparcl::codec
