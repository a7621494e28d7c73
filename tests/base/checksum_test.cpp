#include "src/base/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

namespace sparcl {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// RFC 3720, appendix B.4, and the check value of the CRC catalogues.
TEST(Crc32c, HasTheKnownValues) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  std::vector<std::byte> bytes(32, std::byte{0});
  EXPECT_EQ(crc32c(bytes), 0x8A9136AAu);
  bytes.assign(32, std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62A8AB43u);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46DD794Eu);
}

TEST(Crc32c, ContinuesAtEveryCut) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 11);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::span<const std::byte> all(bytes);
    ASSERT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), whole) << cut;
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::vector<std::byte> bytes(257, std::byte{0x5a});
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_NE(crc32c(bytes), whole) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

// The values of xxHash's own sanity test for the empty input.
TEST(Xxh3, HasTheKnownValues) {
  EXPECT_EQ(xxh3_64({}), 0x2D06800538D394C2u);
  EXPECT_EQ(xxh3_128({}), (Hash128{0x6001c324468d497fu, 0x99aa06d3014798d8u}));
  EXPECT_NE(xxh3_64({}, 1), xxh3_64({}, 0));
  EXPECT_NE(xxh3_128(bytes_of("a"), 1), xxh3_128(bytes_of("a"), 2));
}

TEST(Xxh3, TakesItsBytesInParts) {
  std::vector<std::byte> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31);
  for (const std::size_t part : {1u, 7u, 240u, 1024u, 4999u, 5000u}) {
    Xxh3 hash;
    for (std::size_t at = 0; at < bytes.size(); at += part)
      hash.update(std::span(bytes).subspan(at, std::min(part, bytes.size() - at)));
    EXPECT_EQ(hash.finish(), xxh3_128(bytes)) << part;
  }
}

TEST(Hash128, AddsAndSubtractsEachWordModulo2To64) {
  const Hash128 a{UINT64_MAX, 1};
  const Hash128 b{2, 3};
  EXPECT_EQ(a + b, (Hash128{1, 4}));
  EXPECT_EQ(b + a, a + b);
  EXPECT_EQ((Hash128{UINT64_MAX, UINT64_MAX} + Hash128{1, 0}), (Hash128{0, UINT64_MAX}));
  EXPECT_EQ(a + b - b, a);
}

TEST(Hash128, IsWrittenAsItsBytes) {
  const Hash128 hash{0x0123456789abcdefu, 0xfedcba9876543210u};
  EXPECT_EQ(to_hex(hash), "efcdab89674523011032547698badcfe");
  EXPECT_EQ(to_hex(Hash128{}), "00000000000000000000000000000000");
}

TEST(Hash128, IsStoredLittleEndianLowWordFirst) {
  const std::array<std::uint8_t, 16> bytes = to_bytes({0x0123456789abcdefu, 0xfedcba9876543210u});
  const std::array<std::uint8_t, 16> expected{0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                                              0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
  EXPECT_EQ(bytes, expected);
}

}  // namespace
}  // namespace sparcl
