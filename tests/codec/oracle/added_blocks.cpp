#include "tests/codec/oracle/added_blocks.hpp"

#include <bit>
#include <cmath>

namespace sparcl::oracle {
namespace {

// Of bits without a sign; the pattern of infinity counts as the number that would come next.
double number_of(std::uint64_t bits, const ElementKind& kind) {
  const unsigned mantissa_bits = 8 * kind.bytes - 1 - kind.exponent_bits;
  const int bias = (1 << (kind.exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> mantissa_bits);
  const double mantissa = static_cast<double>(bits % (std::uint64_t{1} << mantissa_bits));
  const double one = std::ldexp(1, static_cast<int>(mantissa_bits));
  return std::ldexp(exponent == 0 ? mantissa : one + mantissa,
                    std::max(exponent, 1) - bias - static_cast<int>(mantissa_bits));
}

// The nearest of a type of at most 32 bits, ties to even: the one below is looked for, and the one
// above lies next to it.
std::uint64_t nearest(double size, const ElementKind& kind) {
  std::uint64_t below = 0;
  std::uint64_t end = ((std::uint64_t{1} << kind.exponent_bits) - 1)
                      << (8 * kind.bytes - 1 - kind.exponent_bits);
  const std::uint64_t infinity = end;
  if (size >= number_of(infinity, kind)) return infinity;
  while (end - below > 1) {
    const std::uint64_t middle = below + (end - below) / 2;
    (number_of(middle, kind) <= size ? below : end) = middle;
  }
  const double to_below = size - number_of(below, kind);
  const double to_above = number_of(end, kind) - size;
  return to_below < to_above || (to_below == to_above && below % 2 == 0) ? below : end;
}

}  // namespace

Codes read_codes_head(ByteCursor& in, const Block& block) {
  refuse_if(!block.kind.is_float || block.kind.bytes < 2,
            "codes are added to what is no float of 16 bits or more");
  const std::uint64_t form = in.number(1);
  const std::uint64_t scale = in.number(4);
  refuse_if(form > 3, "undefined bits of the form");
  refuse_if(scale < 1U << 20 || scale >= 2029U << 20, "a scale out of bounds");
  return {form % 2 == 1, form >= 2, std::bit_cast<double>(scale << 32)};
}

std::uint64_t add_code(std::uint64_t old, const Step& code, const Codes& codes,
                       const ElementKind& kind) {
  refuse_if(code.size > (codes.of_float8 ? 126 : 127), "a code that there is not");
  const std::uint64_t rough = 127 - code.size;
  const std::uint64_t of_float8 = rough < 8 ? rough : (8 + rough % 8) << (rough / 8 - 1);
  const double units =
      static_cast<double>(codes.of_float8 ? of_float8 : code.size) * (code.negative ? -1 : 1);

  const std::uint64_t sign = std::uint64_t{1} << (8 * kind.bytes - 1);
  const std::uint64_t infinity = ((std::uint64_t{1} << kind.exponent_bits) - 1)
                                 << (8 * kind.bytes - 1 - kind.exponent_bits);
  if ((old & ~sign) >= infinity) return old;
  const double old_number =
      (old & sign) != 0 ? -number_of(old & ~sign, kind) : number_of(old, kind);
  const double sum = old_number + codes.scale * units;
  if (kind.bytes == 8) return std::bit_cast<std::uint64_t>(sum);
  return nearest(std::fabs(sum), kind) | (std::signbit(sum) ? sign : 0);
}

}  // namespace sparcl::oracle
