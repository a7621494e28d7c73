#include "src/codec/lossy_values.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/float_environment.hpp"
#include "src/codec/float_formats.hpp"
#include "src/codec/with_width.hpp"

namespace sparcl::codec {
namespace {

constexpr double kRoundToInteger = 0x1p52;

// SplitMix64's function: a number of 64 bits for each counter.
std::uint64_t scramble(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Below 1, in steps of 2^-32.
double fraction(std::uint64_t random) { return static_cast<double>(random >> 32) * 0x1p-32; }

// The kind's numbers around `size` (in units) are multiples of 2^result.
unsigned spacing_at(CodeKind kind, double size) {
  if (kind == CodeKind::kInt8) return 0;
  const auto biased = static_cast<unsigned>(std::bit_cast<std::uint64_t>(size) >> 52);
  return std::max(biased, 1023U + 3) - (1023 + 3);
}

template <class Bits>
Bits without_sign(Bits bits) {
  return static_cast<Bits>(bits & (static_cast<Bits>(~Bits{0}) >> 1));
}

// 2^-exponent.
double inverse_power(unsigned exponent) {
  return std::bit_cast<double>(std::uint64_t{1023 - exponent} << 52);
}

// The size of the code for `units`, one of the kind's numbers.
unsigned code_of(CodeKind kind, std::uint32_t units) {
  if (kind == CodeKind::kInt8 || units == 0) return units;
  if (units < 16) return 127 - units;
  const auto exponent = static_cast<unsigned>(std::bit_width(units)) - 1;
  return 127 - ((exponent - 2) << 3 | (units >> (exponent - 3) & 7));
}

}  // namespace

Status check_values(const ValueCoding& coding, const BlockMap& map) {
  const auto takes = [](const ArraySpec& array) { return takes_codes(array.datatype); };
  if (!coding.is_lossy() || std::ranges::any_of(map.arrays(), takes)) return {};
  return Status(Code::kInvalidArgument,
                "none of the tensors has floats of 16 bits or more, and others travel exactly: ask "
                "for exact values");
}

void LossyChanges::clear() {
  active_ = false;
  error_ = {};
}

std::size_t LossyChanges::choose(const ValueCoding& coding, std::uint64_t version,
                                 const FoundChanges& changes) {
  clear();
  std::size_t kept = changes.count;
  if (!coding.is_lossy() || !takes_codes(changes.datatype)) return kept;
  const FloatEnvironment environment;
  kind_ = coding.values == Values::kInt8 ? CodeKind::kInt8 : CodeKind::kFloat8;
  const std::uint64_t key = scramble(coding.seed ^ scramble(version));
  const std::uint64_t first = key + changes.block * kBlockElements;
  with_float_format(changes.datatype, [&](auto format) {
    using Format = decltype(format);
    kept = kind_ == CodeKind::kInt8 ? choose_as<Format, CodeKind::kInt8>(coding, first, changes)
                                    : choose_as<Format, CodeKind::kFloat8>(coding, first, changes);
  });
  return kept;
}

// Sets deltas_ and the scale of the largest. Rounds up, so that no change exceeds the largest code.
template <class Format>
bool LossyChanges::find_scale(const FoundChanges& changes) {
  using Bits = typename Format::Bits;
  double* deltas = deltas_.need(changes.count);
  double largest = 0;
  Bits largest_bits =
      0;  // the largest magnitude bits; at least infinity's if a value is not finite
  for (std::size_t i = 0; i < changes.count; ++i) {
    const Bits old_bits = load<Bits>(changes.old_values, i);
    const Bits new_bits = load<Bits>(changes.new_values, i);
    deltas[i] = Format::load(new_bits) - Format::load(old_bits);
    largest = std::max(largest, std::fabs(deltas[i]));
    largest_bits = std::max({largest_bits, without_sign(old_bits), without_sign(new_bits)});
  }
  const std::uint64_t exact = std::bit_cast<std::uint64_t>(largest / top_units(kind_));
  scale_.bits = static_cast<std::uint32_t>((exact + 0xffffffff) >> 32);
  return Format::is_finite(largest_bits) && (largest == 0 || scale_.valid());
}

template <class Format, CodeKind kKind>
std::size_t LossyChanges::choose_as(const ValueCoding& coding, std::uint64_t key,
                                    const FoundChanges& changes) {
  using Bits = typename Format::Bits;
  if (!find_scale<Format>(changes)) return changes.count;
  const bool is_stochastic = coding.rounding == Rounding::kStochastic;
  const double scale = scale_.value();
  const double top = top_units(kKind);
  std::byte* codes = codes_.need(changes.count);
  std::byte* new_values = new_values_.need(changes.count * sizeof(Bits));
  bool finite = true;
  for (std::size_t i = 0; i < changes.count; ++i) {
    const double delta = deltas_.data()[i];
    const double size = delta == 0 ? 0 : std::min(std::fabs(delta) / scale, top);
    const unsigned spacing = spacing_at(kKind, size);
    const double places = size * inverse_power(spacing);
    const double place = is_stochastic ? places + fraction(scramble(key + changes.positions[i]))
                                       : (places + kRoundToInteger) - kRoundToInteger;
    const std::uint32_t units =
        std::min(static_cast<std::uint32_t>(place) << spacing, top_units(kKind));  // rounded down
    const unsigned code = code_of(kKind, units);
    codes[i] = static_cast<std::byte>(delta < 0 ? 256 - code : code);
    const Bits new_bits = Format::store(Format::load(load<Bits>(changes.old_values, i)) +
                                        scale * std::copysign(static_cast<double>(units), delta));
    std::memcpy(new_values + i * sizeof new_bits, &new_bits, sizeof new_bits);
    finite = finite && Format::is_finite(new_bits);
  }
  if (!finite) return changes.count;
  active_ = true;
  return keep<Format>(changes);
}

// Keeps the changes that receivers see, and sets the new values that receivers will have.
template <class Format>
std::size_t LossyChanges::keep(const FoundChanges& changes) {
  using Bits = typename Format::Bits;
  std::byte* codes = codes_.data();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < changes.count; ++i) {
    const Bits old_bits = load<Bits>(changes.old_values, i);
    const Bits new_bits = load<Bits>(new_values_.data(), i);
    const bool is_sent = codes[i] != std::byte{0} && new_bits != old_bits;
    const double received = Format::load(is_sent ? new_bits : old_bits);
    error_.add(Format::load(load<Bits>(changes.new_values, i)) - received, deltas_.data()[i]);
    changes.positions[kept] = changes.positions[i];
    codes[kept] = codes[i];
    std::memcpy(changes.old_values + kept * sizeof old_bits, &old_bits, sizeof old_bits);
    std::memcpy(changes.new_values + kept * sizeof new_bits, &new_bits, sizeof new_bits);
    kept += is_sent;
  }
  return kept;
}

}  // namespace sparcl::codec
