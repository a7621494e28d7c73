#pragma once
// Contracts of the kernels for sizes: numbers m < 2^63 in Elias-gamma codes with an exponent e < 63
// (docs/reference/wire-format.md). v = (m >> e) + 1, and L = floor(log2 v). First comes a unary
// part (L zeros and a one, for each m), then a part of suffixes of L + e bits. Memory space: host.

#include <cstddef>
#include <cstdint>

#include "kernels/bit_stream.hpp"

namespace sparcl::kernels {

// widths[b] (64 of them) = the number of values with floor(log2(value + 1 + more)) = b; value + 1 +
// more < 2^64.
using GammaWidthsKernel = void(const std::uint64_t* values, std::size_t count, std::uint64_t more,
                               std::uint32_t* widths);

// Estimates the bits of all codes with exponent e, of values with these widths; widths[top] is the
// last that is not 0. The estimate is exact except for values next to a power of two. It uses only
// integers, so that every sender decides alike.
constexpr std::uint64_t about_gamma_bits(const std::uint32_t* widths, unsigned top, unsigned e) {
  std::uint64_t bits = 0;
  for (unsigned b = 0; b <= top; ++b) {
    const unsigned scaled = (b > e ? b : e) + (b == e && b > 0 ? 1 : 0);
    bits += widths[b] * std::uint64_t{2 * scaled - e + 1};
  }
  return bits;
}
constexpr unsigned kMaxGammaExponent = 62;

// lengths[i] = L + e = floor(log2(m_i + 2^e)), at most 63. Returns the bits of all codes.
using GammaLengthsKernel = std::uint64_t(const std::uint64_t* values, std::size_t count,
                                         unsigned exponent, std::uint8_t* lengths);

// Appends both parts, given the lengths of these values.
using WriteGammasKernel = void(const std::uint64_t* values, const std::uint8_t* lengths,
                               std::size_t count, unsigned exponent, BitWriter& out);

// Reads count values from the untrusted bits [bit, bit + limit) of `bits`, which has kBitSlackBytes
// readable after it; `lengths` has room for count. Returns the number of bits read. Returns
// kNoGammas if there are too few bits or an L + e is over 63. A value may be up to 2^64 - 2.
constexpr std::uint64_t kNoGammas = ~std::uint64_t{0};
using ReadGammasKernel = std::uint64_t(const std::byte* bits, std::uint64_t bit,
                                       std::uint64_t limit, std::size_t count, unsigned exponent,
                                       std::uint8_t* lengths, std::uint64_t* values);

}  // namespace sparcl::kernels
