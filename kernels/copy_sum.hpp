#pragma once
// Contract of a checksum that is computed while bytes are copied, at the speed of the copy: the
// bytes as rows of eight 64-bit words, the last one padded with zeros. For each of the eight
// columns A = sum of its words and B = sum of the values that A had after each row, modulo 2^64
// (Fletcher 1982, over columns). The result is a sum of hashes of each A and B. Damage is missed
// with a probability of about 2^-64; the sum protects against errors, not against intent.

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/word_hash.hpp"

namespace sparcl::kernels {

constexpr std::size_t kSumColumns = 8;

using SumColumns = std::array<std::uint64_t, kSumColumns>;

constexpr std::uint64_t sum_of(const SumColumns& a, const SumColumns& b) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kSumColumns; ++i)
    sum += hash_key(a[i] + hash_key(2 * i)) + hash_key(b[i] + hash_key(2 * i + 1));
  return sum;
}

// Copies, and returns the checksum. Any alignment. `to` may be `from`; otherwise they do not
// overlap.
using CopySumKernel = std::uint64_t(const std::byte* from, std::size_t bytes, std::byte* to);

}  // namespace sparcl::kernels
