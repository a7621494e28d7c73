#include "src/codec/scaled_codes.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "src/base/float_environment.hpp"
#include "src/codec/float_formats.hpp"
#include "src/codec/with_width.hpp"

namespace sparcl::codec {
namespace {

using Units = std::array<double, 256>;  // by the code's bits

constexpr Units make_units(CodeKind kind) {
  Units units{};
  for (int size = 1; size <= top_code(kind); ++size) {
    const auto number = static_cast<double>(units_of(kind, static_cast<unsigned>(size)));
    units[static_cast<std::size_t>(size)] = number;
    units[static_cast<std::size_t>(256 - size)] = -number;
  }
  return units;
}

constexpr std::array kUnits{make_units(CodeKind::kInt8), make_units(CodeKind::kFloat8)};

}  // namespace

double Scale::value() const { return std::bit_cast<double>(std::uint64_t{bits} << 32); }

void add_codes(DataType type, CodeKind kind, Scale scale, const std::byte* old_values,
               const std::byte* codes, std::size_t count, std::byte* new_values) {
  const FloatEnvironment environment;
  const Units& units = kUnits[static_cast<std::size_t>(kind)];
  const double unit = scale.value();
  with_float_format(type, [&](auto format) {
    using Format = decltype(format);
    using Bits = typename Format::Bits;
    for (std::size_t i = 0; i < count; ++i) {
      const Bits old_bits = load<Bits>(old_values, i);
      // The product is exact (21 bits times 7), so that a fused sum has the same bits.
      const double sum =
          Format::load(old_bits) + unit * units[std::to_integer<std::size_t>(codes[i])];
      const Bits new_bits = Format::is_finite(old_bits) ? Format::store(sum) : old_bits;
      std::memcpy(new_values + i * sizeof new_bits, &new_bits, sizeof new_bits);
    }
  });
}

}  // namespace sparcl::codec
