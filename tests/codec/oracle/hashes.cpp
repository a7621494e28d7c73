#include "tests/codec/oracle/hashes.hpp"

#include <xxhash.h>

#include <array>

namespace sparcl::oracle {
namespace {

std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;  // of RFC 3720, bits reversed
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

// K(n): the n-th output of SplitMix64 from seed 0.
std::uint64_t key(std::uint64_t n) {
  std::uint64_t z = n * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// What word `word` of a block counts for in H_j.
std::uint64_t word_key(std::uint64_t block, std::uint64_t word, unsigned j) {
  const std::uint64_t stripe = word / 1024;
  return key(1 + 2 * (word % 1024) + j) * (key(2049 + 2 * stripe + j) | 1) *
         (key(2305 + 2 * block + j) | 1);
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  static const std::array<std::uint32_t, 256> table = crc_table();
  crc = ~crc;
  for (const std::byte byte : bytes)
    crc = crc >> 8 ^ table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~crc;
}

std::uint64_t h64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash element_sums(std::uint64_t index, unsigned element_bytes,
                  std::span<const std::uint64_t> positions, std::span<const std::uint64_t> values) {
  Hash sums;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::uint64_t first_byte = positions[i] * element_bytes;
    for (unsigned byte = 0; byte < element_bytes; ++byte) {
      const std::uint64_t at = first_byte + byte;
      const std::uint64_t part = (values[i] >> (8 * byte) & 0xff) << (8 * (at % 4));  // of its word
      const std::uint64_t word = at / 4;
      sums.low += part * word_key(index, word, 0);
      sums.high += part * word_key(index, word, 1);
    }
  }
  return sums;
}

Hash operator+(Hash a, Hash b) { return {a.low + b.low, a.high + b.high}; }

std::uint64_t high(Hash sums) { return sums.low >> 32 | (sums.high >> 32 << 32); }

}  // namespace sparcl::oracle
