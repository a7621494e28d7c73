#pragma once
// Estimated bits of lists of positions, on one level and on two (docs/reference/wire-format.md).
// Integers only, so that every sender, on the host or on a device, decides alike.

#include <cstddef>
#include <cstdint>

#include "kernels/bit_list.hpp"

namespace sparcl::kernels {

// The exponent of a sent divisor, which is a power of two. 0.481 = 31 / 64 is ln 2 squared: the
// optimum of Golomb's rule for long gaps. At most 16.
constexpr unsigned rice_shift(std::uint64_t span, std::uint64_t count) {
  const std::uint64_t least = 64 * count;
  const std::uint64_t most = 31 * span;
  if (count == 0 || least >= most) return 0;
  const unsigned shift = min_gap_shift(least, most);
  return shift < kMaxGapShift ? shift : kMaxGapShift;
}

// The bits of a list that do not depend on the sum of its gaps: planes, the ones, and with thirds
// the plane that all lists have.
constexpr std::uint64_t fixed_list_bits(std::uint64_t count, GapDivisor divisor) {
  return count * (divisor.shift + (divisor.thirds ? 2 : 1));
}

// Estimated bits of a list, without its positions. Low bits are assumed to be half of their
// maximum, and trits 0, 1 and 2 equally likely. Their cost is then that of gaps that are longer by
// one unit.
constexpr std::uint64_t about_list_bits(std::uint64_t span, std::uint64_t count,
                                        GapDivisor divisor) {
  if (count == 0) return 0;
  const std::uint64_t unit = std::uint64_t{1} << divisor.shift;
  const std::uint64_t gaps = span - count + (divisor.thirds ? count * unit : 0);
  const std::uint64_t low = count * (unit - 1) / 2;
  return fixed_list_bits(count, divisor) + divisor.quotient(gaps > low ? gaps - low : 0);
}
constexpr std::uint64_t about_list_bits(std::uint64_t span, std::uint64_t count) {
  return about_list_bits(span, count, gap_divisor(span, count));
}

constexpr unsigned kMaxLongShift = 15;  // a gap is long from 2^0 .. 2^15 elements on

// The parameter of short gaps: that of a list which ends with its last position.
constexpr unsigned short_shift(unsigned long_shift, std::uint64_t count, std::uint64_t sum) {
  const unsigned shift = rice_shift(count + sum, count);
  return shift < long_shift ? shift : long_shift;
}

// A list of `count` positions below `elements`. One in times_16 / 16 of its gaps has been examined.
struct GapsSeen {
  std::uint64_t elements, count, times_16 = 16;

  // The estimated number of long gaps in the list, from the number of long gaps seen.
  constexpr std::uint64_t longs(std::uint64_t seen) const {
    const std::uint64_t all = seen * times_16 / 16;
    return all < count ? all : count;
  }
  // Estimated bits on two levels with this number of long gaps, all from 2^shift on; the other gaps
  // seen have this sum. ~0: impossible.
  constexpr std::uint64_t bits(unsigned shift, std::uint64_t longs,
                               std::uint64_t short_sum_seen) const {
    const std::uint64_t unchanged = elements - count;
    if (unchanged < longs << shift) return ~std::uint64_t{0};  // a bad sample
    const std::uint64_t short_count = count - longs, short_sum = short_sum_seen * times_16 / 16;
    const GapDivisor divisor{short_shift(shift, short_count, short_sum)};
    const std::uint64_t shorts =
        shift == 0 ? 0 : about_list_bits(short_count + short_sum, short_count, divisor);
    return about_list_bits(count, longs) +
           about_list_bits(unchanged - (longs << shift) + longs, longs) + shorts;
  }
};

// The sample of gaps: `each` gaps from first(0) on, from first(1) on, and so on. Most blocks are
// decided by the sample, so it is small: examining all gaps would take 10 % of the time to encode a
// block of which 1 % changes.
struct GapSample {
  static constexpr std::size_t kMost = 4;
  std::size_t pairs;  // of neighbouring positions
  std::size_t samples, each;

  constexpr std::size_t taken() const { return samples * each; }
  // The number of the position before the gap.
  constexpr std::size_t first(std::size_t sample) const { return sample * (pairs - each) / kMost; }
};
constexpr GapSample gap_sample(std::size_t count) {
  const std::size_t pairs = count - 1, share = pairs / 64 < 32 ? 32 : pairs / 64;
  return pairs < GapSample::kMost * share ? GapSample{pairs, 1, pairs}
                                          : GapSample{pairs, GapSample::kMost, share};
}

// The sample must promise fewer bits than this before all gaps are examined for two levels.
constexpr std::uint64_t clustered_bits(std::uint64_t elements, std::uint64_t count) {
  const std::uint64_t promised = about_list_bits(elements, count);
  return promised - promised / 16;
}
// All gaps must promise fewer bits than this before two levels are written, instead of a list of
// flat_bits. 0: they cannot pay.
constexpr std::uint64_t enough_two_level_bits(std::uint64_t flat_bits) {
  constexpr std::uint64_t kHeadBits = 16;  // its own bytes, and so the least gain
  constexpr std::uint64_t kMinGain =
      128;  // a gain below this part of the list is not worth writing
  if (flat_bits < 4 * kHeadBits) return 0;
  return flat_bits - (flat_bits / kMinGain > kHeadBits ? flat_bits / kMinGain : kHeadBits);
}

}  // namespace sparcl::kernels
