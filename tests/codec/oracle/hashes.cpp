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

Hash h128(std::span<const std::byte> bytes, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

Hash operator+(Hash a, Hash b) {
  const std::uint64_t low = a.low + b.low;
  return {low, a.high + b.high + (low < a.low ? 1 : 0)};
}

}  // namespace sparcl::oracle
