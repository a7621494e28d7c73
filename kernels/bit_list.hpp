#pragma once
// Contracts of the kernels for split-Rice lists. Strictly ascending positions p_0 < p_1 < ... are
// coded as gaps g_i = p_i - p_(i-1) - 1. Each gap is divided into remainder and quotient. The
// quotients are kept as marks t_i = i + q_0 + ... + q_i: mark t_i is the index of the i-th 1 in the
// list's unary bitmap. count <= 65536 throughout. Memory space: host.

#include <cstddef>
#include <cstdint>

#include "kernels/bit_stream.hpp"

namespace sparcl::kernels {

// The divisor of the gaps: 2^shift, or 3 * 2^shift. A remainder has `shift` low bits. With thirds
// it has a trit (0, 1 or 2) above them.
struct GapDivisor {
  unsigned shift = 0;
  bool thirds = false;

  constexpr std::uint32_t value() const { return (thirds ? 3u : 1u) << shift; }
  constexpr std::uint64_t quotient(std::uint64_t gap) const {
    return thirds ? (gap >> shift) / 3 : gap >> shift;
  }
  bool operator==(const GapDivisor&) const = default;
};

constexpr unsigned kMaxGapShift = 16;  // remainders have 16 bits; blocks coded alone need 15

// The smallest shift with (number << shift) >= least; both numbers are at least 1.
constexpr unsigned min_gap_shift(std::uint64_t number, std::uint64_t least) {
  unsigned shift = 0;
  while (number << shift < least) ++shift;
  return shift;
}

// The divisor for the gaps of `count` positions below `span`. It is a pure function of both, so it
// is not sent. It is the divisor with the fewest expected bits if positions are independent. At
// most 65,536; less in blocks coded alone. Let x = -ln(1 - count / span). A divisor of 2u has fewer
// expected bits than 3u if u x > 0.281. 3u has fewer than 4u if u x > 0.199, and 1 fewer than 2 if
// x > 0.481 (Golomb's rule). 2 count / (2 span - count) is near x, and a little below it.
constexpr GapDivisor gap_divisor(std::uint64_t span, std::uint64_t count) {
  if (count == 0 || count >= span) return {};
  const std::uint64_t twice_rest = 2 * span - count;
  if (1000 * count >= 236 * twice_rest) return {};
  const unsigned shift =
      min_gap_shift(1000 * count, 280 * twice_rest);  // at least 1: 236 would not do
  const bool thirds_are_enough =
      shift > 1 && 1000 * count * (std::uint64_t{3} << (shift - 2)) >= 300 * twice_rest;
  if (thirds_are_enough && shift <= kMaxGapShift) return {shift - 2, true};
  return {shift < kMaxGapShift ? shift : kMaxGapShift, false};
}

// remainders[i] and marks[i] of a list; room for count + kPositionSlack entries each.
// Divisors below 65536. Returns how many trits are not 0.
using SplitGapsKernel = std::size_t(const std::uint16_t* positions, std::size_t count,
                                    GapDivisor divisor, std::uint16_t* remainders,
                                    std::uint16_t* marks);

// The inverse. Writes positions modulo 65536. Returns the last position without the modulus, or 0
// for an empty list. All positions are below n exactly if the returned position is below n, because
// the earlier positions are smaller.
using JoinGapsKernel = std::uint64_t(const std::uint16_t* remainders, const std::uint16_t* marks,
                                     std::size_t count, GapDivisor divisor,
                                     std::uint16_t* positions);

// The same for positions of 32 bits. Their marks are still below 65,536. Divisors up to 65,536.
using SplitWideGapsKernel = std::size_t(const std::uint32_t* positions, std::size_t count,
                                        GapDivisor divisor, std::uint16_t* remainders,
                                        std::uint16_t* marks);

// The inverse. Writes positions modulo 2^32. Returns the last position without the modulus.
using JoinWideGapsKernel = std::uint64_t(const std::uint16_t* remainders,
                                         const std::uint16_t* marks, std::size_t count,
                                         GapDivisor divisor, std::uint32_t* positions);

// Appends `planes` planes of count bits: bit i of plane j is bit j of values[i].
using PackPlanesKernel = void(const std::uint16_t* values, std::size_t count, unsigned planes,
                              BitWriter& out);

// The inverse, from bit `bit` of `bits` on, which has kBitSlackBytes readable after its end. planes
// <= 16.
using UnpackPlanesKernel = void(const std::byte* bits, std::uint64_t bit, std::size_t count,
                                unsigned planes, std::uint16_t* values);

// Appends the trits above the low `shift` bits of remainders. First comes a plane of count bits: 1
// if the trit is not 0. Then comes one bit for each 1 of the plane: 1 if the trit is 2.
using PackTritsKernel = void(const std::uint16_t* values, std::size_t count, unsigned shift,
                             BitWriter& out);

// The inverse. Adds the trits to values, which already have their low bits (room for count +
// kPositionSlack). Reads from bit `bit` of `bits` on, at most `limit` bits (kBitSlackBytes readable
// after them). Returns the number of bits read. Returns kNoTrits and leaves values unchanged if
// `limit` is too small.
constexpr std::uint64_t kNoTrits = ~std::uint64_t{0};
using UnpackTritsKernel = std::uint64_t(const std::byte* bits, std::uint64_t bit,
                                        std::uint64_t limit, std::size_t count, unsigned shift,
                                        std::uint16_t* values);

// Appends a bitmap of marks[count - 1] + 1 bits in which the bits marks[0] < marks[1] < ... are 1.
using WriteMarksKernel = void(const std::uint16_t* marks, std::size_t count, BitWriter& out);

// Finds the first `count` ones among the bits [bit, bit + limit) of `bits`, with limit <= 65536
// (kBitSlackBytes readable after them). Writes their distances from `bit` to marks (room for count
// + kPositionSlack). Returns how many ones there are, at most count.
using FindMarksKernel = std::size_t(const std::byte* bits, std::uint64_t bit, std::uint64_t limit,
                                    std::size_t count, std::uint16_t* marks);

}  // namespace sparcl::kernels
