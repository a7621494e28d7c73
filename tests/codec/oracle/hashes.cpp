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

std::uint64_t split_mix(std::uint64_t n) {
  std::uint64_t z = n * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// The word'th word of block b.
Hash word_sums(std::uint64_t value, std::uint64_t word, std::uint64_t b) {
  const std::uint64_t w = word % 1024;
  const std::uint64_t s = word / 1024;
  const auto sum = [&](std::uint64_t j) {
    return value * split_mix(1 + 2 * w + j) * (split_mix(2049 + 2 * s + j) | 1) * (split_mix(2305 + 2 * b + j) | 1);
  };
  return {sum(0), sum(1)};
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  static const std::array<std::uint32_t, 256> table = crc_table();
  crc = ~crc;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~crc;
}

std::uint64_t h64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash operator+(Hash a, Hash b) { return {a.low + b.low, a.high + b.high}; }

Hash element_sums(std::uint64_t value, unsigned bytes, std::uint64_t position, std::uint64_t b) {
  if (bytes == 8) return word_sums(value & 0xffffffff, 2 * position, b) + word_sums(value >> 32, 2 * position + 1, b);
  const std::uint64_t at = position * bytes;
  return word_sums(value << (8 * (at % 4)), at / 4, b);
}

std::uint64_t high_halves(const Hash& sums) { return sums.low >> 32 | sums.high >> 32 << 32; }

}  // namespace sparcl::oracle
