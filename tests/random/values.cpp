#include "tests/random/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sparcl::test {
namespace {

// Of the floats; has_infinity: else only the pattern of all ones is no number.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity = true;
};

bool float_format(sparclDataType_t datatype, Format& format) {
  switch (datatype) {
    case sparclFloat16:
      format = {5, 10};
      return true;
    case sparclBfloat16:
      format = {8, 7};
      return true;
    case sparclFloat32:
      format = {8, 23};
      return true;
    case sparclFloat64:
      format = {11, 52};
      return true;
    case sparclFloat8e4m3:
      format = {4, 3, false};
      return true;
    case sparclFloat8e5m2:
      format = {5, 2};
      return true;
    default:
      return false;
  }
}

bool is_signed(sparclDataType_t datatype) {
  return datatype == sparclInt8 || datatype == sparclInt16 || datatype == sparclInt32 ||
         datatype == sparclInt64;
}

std::uint64_t load(const unsigned char* at, std::size_t width) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, width);
  return bits;
}

void store(unsigned char* at, std::uint64_t bits, std::size_t width) {
  std::memcpy(at, &bits, width);
}

std::uint64_t special_bits(sparclDataType_t datatype, SeededRandom& random) {
  const std::size_t width = width_of(datatype);
  const std::uint64_t sign = std::uint64_t{1} << (width * 8 - 1);
  Format format;
  if (!float_format(datatype, format)) {
    const std::array<std::uint64_t, 5> all{0, 1, ~std::uint64_t{0}, sign, sign - 1};
    return all[random.below(all.size())];
  }
  const std::uint64_t infinity = ((std::uint64_t{1} << format.exponent_bits) - 1)
                                 << format.mantissa_bits;
  const std::uint64_t one = ((std::uint64_t{1} << (format.exponent_bits - 1)) - 1)
                            << format.mantissa_bits;
  const std::array<std::uint64_t, 9> all{0,
                                         1,
                                         one,
                                         infinity,
                                         infinity - 1,
                                         sign - 1,
                                         infinity | 1,
                                         infinity | std::uint64_t{1} << (format.mantissa_bits - 1),
                                         (std::uint64_t{1} << format.mantissa_bits) - 1};
  return all[random.below(all.size())] | (random.chance(0.5) ? sign : 0);
}

std::uint64_t small_bits(sparclDataType_t datatype, SeededRandom& random) {
  Format format;
  if (!float_format(datatype, format)) return random.below(100);
  const std::uint64_t one = ((std::uint64_t{1} << (format.exponent_bits - 1)) - 1)
                            << format.mantissa_bits;
  return one - random.below(std::uint64_t{1} << std::min(format.mantissa_bits, 12));
}

std::uint64_t whole_bits(sparclDataType_t datatype, SeededRandom& random) {
  constexpr std::uint64_t kRange = 15;
  unsigned char bytes[8] = {};
  put_number(datatype,
             static_cast<double>(random.below(2 * kRange + 1)) - static_cast<double>(kRange),
             bytes);
  return load(bytes, sizeof bytes);
}

std::uint64_t draw_bits(sparclDataType_t datatype, Style style, SeededRandom& random) {
  if (style == Style::kBits) return random.next();
  if (style == Style::kWhole) return whole_bits(datatype, random);
  return style == Style::kSpecial ? special_bits(datatype, random) : small_bits(datatype, random);
}

// Other bits than before.
void change(unsigned char* at, sparclDataType_t datatype, Style style, SeededRandom& random) {
  const std::size_t width = width_of(datatype);
  const std::uint64_t before = load(at, width);
  store(at,
        style == Style::kSmall ? before + (random.chance(0.5) ? 1 : ~std::uint64_t{0})
                               : draw_bits(datatype, style, random),
        width);
  if (load(at, width) == before) store(at, before ^ 1, width);
}

}  // namespace

std::size_t width_of(sparclDataType_t datatype) {
  switch (datatype) {
    case sparclInt8:
    case sparclUint8:
    case sparclFloat8e4m3:
    case sparclFloat8e5m2:
    case sparclBool:
      return 1;
    case sparclFloat16:
    case sparclBfloat16:
    case sparclInt16:
    case sparclUint16:
      return 2;
    case sparclInt64:
    case sparclUint64:
    case sparclFloat64:
      return 8;
    default:
      return 4;
  }
}

ByteList make_values(sparclDataType_t datatype, std::size_t count, Style style,
                     SeededRandom& random) {
  const std::size_t width = width_of(datatype);
  ByteList values(count * width);
  for (std::size_t at = 0; at < values.size(); at += width)
    store(values.data() + at, draw_bits(datatype, style, random), width);
  return values;
}

std::vector<std::uint64_t> change_values(ByteList& values, sparclDataType_t datatype, double share,
                                         Style style, SeededRandom& random) {
  const std::size_t width = width_of(datatype), count = values.size() / width;
  std::vector<std::uint64_t> changed;
  if (share > 0.1) {
    for (std::size_t i = 0; i < count; ++i) {
      if (random.chance(share)) changed.push_back(i);
    }
  } else {
    const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(count)));
    for (std::size_t i = 0; i < wanted && count > 0; ++i) changed.push_back(random.below(count));
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  }
  for (const std::uint64_t i : changed) change(values.data() + i * width, datatype, style, random);
  return changed;
}

double number_at(sparclDataType_t datatype, const unsigned char* at) {
  const std::size_t width = width_of(datatype);
  const std::uint64_t bits = load(at, width);
  Format format;
  if (!float_format(datatype, format)) {
    if (!is_signed(datatype)) return static_cast<double>(bits);
    const std::size_t unused = 64 - width * 8;
    return static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
  }
  const std::uint64_t top = (std::uint64_t{1} << format.exponent_bits) - 1;
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  const std::uint64_t exponent = bits >> format.mantissa_bits & top;
  const bool negative = (bits >> (width * 8 - 1)) != 0;
  const double sign = negative ? -1 : 1;
  if (format.has_infinity && exponent == top) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (!format.has_infinity && exponent == top &&
      mantissa == (std::uint64_t{1} << format.mantissa_bits) - 1)
    return std::numeric_limits<double>::quiet_NaN();
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint64_t significand =
      exponent == 0 ? mantissa : mantissa | std::uint64_t{1} << format.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(significand),
                           std::max(static_cast<int>(exponent), 1) - bias - format.mantissa_bits);
}

void put_number(sparclDataType_t datatype, double number, unsigned char* at) {
  const std::size_t width = width_of(datatype);
  Format format;
  if (!float_format(datatype, format))
    return store(at, static_cast<std::uint64_t>(static_cast<std::int64_t>(number)), width);
  const std::uint64_t sign = std::signbit(number) ? std::uint64_t{1} << (width * 8 - 1) : 0;
  const std::uint64_t top = (std::uint64_t{1} << format.exponent_bits) - 1;
  const std::uint64_t infinity = top << format.mantissa_bits;
  const std::uint64_t all_ones = (std::uint64_t{1} << (width * 8 - 1)) - 1;
  if (std::isnan(number)) {
    return store(
        at,
        format.has_infinity ? infinity | std::uint64_t{1} << (format.mantissa_bits - 1) : all_ones,
        width);
  }
  const std::uint64_t too_large = format.has_infinity ? infinity : all_ones - 1;
  if (std::isinf(number)) return store(at, sign | too_large, width);
  // In units of the last place; a carry goes on into the exponent.
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = number == 0 ? 1 - bias : std::max(std::ilogb(number), 1 - bias);
  const auto units = static_cast<std::uint64_t>(
      std::nearbyint(std::ldexp(std::abs(number), format.mantissa_bits - exponent)));
  if (exponent > bias + 1) return store(at, sign | too_large, width);
  const std::uint64_t bits =
      units + (static_cast<std::uint64_t>(exponent + bias - 1) << format.mantissa_bits);
  store(at, sign | std::min(bits, too_large), width);
}

void Fenced::set(const ByteList& values) { std::copy(values.begin(), values.end(), data()); }

bool Fenced::holds(const ByteList& values) const {
  const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(offset_),
             end = begin + static_cast<std::ptrdiff_t>(bytes_);
  const auto is_fill = [](unsigned char byte) { return byte == kFill; };
  return values.size() == bytes_ && std::equal(begin, end, values.begin()) &&
         std::all_of(all_.begin(), begin, is_fill) && std::all_of(end, all_.end(), is_fill);
}

}  // namespace sparcl::test
