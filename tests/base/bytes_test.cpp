#include "src/base/bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/tier.hpp"

namespace sparcl {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(ByteReader, ReadsLittleEndian) {
  const std::vector<std::byte> bytes = bytes_of({0x01, 0x02, 0x03, 0x04, 0xff});
  ByteReader reader(bytes);
  std::uint16_t first = 0;
  std::uint16_t second = 0;
  std::int8_t third = 0;
  ASSERT_TRUE(reader.read(first));
  ASSERT_TRUE(reader.read(second));
  ASSERT_TRUE(reader.read(third));
  EXPECT_EQ(first, 0x0201);
  EXPECT_EQ(second, 0x0403);
  EXPECT_EQ(third, -1);
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST(ByteReader, StaysWhereItWasAfterAReadPastTheEnd) {
  const std::vector<std::byte> bytes = bytes_of({1, 2, 3});
  ByteReader reader(bytes);
  std::uint32_t value = 77;
  std::span<const std::byte> slice;
  EXPECT_FALSE(reader.read(value));
  EXPECT_FALSE(reader.read_bytes(4, slice));
  EXPECT_FALSE(reader.read_bytes(std::numeric_limits<std::size_t>::max(), slice));
  EXPECT_EQ(value, 77u);
  EXPECT_TRUE(slice.empty());
  EXPECT_EQ(reader.position(), 0u);
  ASSERT_TRUE(reader.read_bytes(3, slice));
  EXPECT_EQ(slice.data(), bytes.data());
  EXPECT_FALSE(reader.read_bytes(1, slice));
  EXPECT_TRUE(reader.read_bytes(0, slice));
}

TEST(ByteReader, ReadsNothingFromNothing) {
  ByteReader reader({});
  std::uint8_t byte = 5;
  std::uint64_t varint = 6;
  EXPECT_FALSE(reader.read(byte));
  EXPECT_FALSE(reader.read_varint(varint));
  EXPECT_EQ(byte, 5);
  EXPECT_EQ(varint, 6u);
}

TEST(Varint, HasTheKnownEncodings) {
  const std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> cases = {
      {0, bytes_of({0})},
      {127, bytes_of({0x7f})},
      {128, bytes_of({0x80, 0x01})},
      {300, bytes_of({0xac, 0x02})},
      {std::uint64_t{1} << 63,
       bytes_of({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01})},
      {UINT64_MAX, bytes_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})},
  };
  for (const auto& [value, encoding] : cases) {
    ByteWriter writer;
    writer.write_varint(value);
    EXPECT_THAT(writer.bytes(), testing::ElementsAreArray(encoding)) << value;
    std::uint64_t read = ~value;
    ByteReader reader(encoding);
    ASSERT_TRUE(reader.read_varint(read)) << value;
    EXPECT_EQ(read, value);
    EXPECT_EQ(reader.remaining(), 0u);
  }
}

TEST(Varint, RefusesWhatHasAnotherEncodingOrNone) {
  const std::vector<std::pair<const char*, std::vector<std::byte>>> cases = {
      {"overlong zero", bytes_of({0x80, 0x00})},
      {"overlong 127", bytes_of({0xff, 0x00})},
      {"cut", bytes_of({0x80})},
      {"cut after nine", bytes_of({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80})},
      {"65 bits", bytes_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02})},
      {"70 bits", bytes_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})},
      {"eleven bytes",
       bytes_of({0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x81, 0x00})},
  };
  for (const auto& [name, bytes] : cases) {
    ByteReader reader(bytes);
    std::uint64_t value = 42;
    EXPECT_FALSE(reader.read_varint(value)) << name;
    EXPECT_EQ(value, 42u) << name;
    EXPECT_EQ(reader.position(), 0u) << name;
  }
}

// Whatever is accepted is the encoding that the writer gives: one value, one encoding.
TEST(Varint, AcceptsOnlyItsOwnEncodings) {
  std::mt19937_64 random(20240);
  const int rounds = test::by_tier(20'000, 2'000'000);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> bytes(1 + random() % 12);
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(random() % 4 == 0 ? random() & 0x7f : random() | 0x80);
    ByteReader reader(bytes);
    std::uint64_t value = 0;
    if (!reader.read_varint(value)) continue;
    ++accepted;
    std::byte again[kMaxVarintBytes];
    const std::size_t length = store_varint(again, value);
    ASSERT_EQ(length, reader.position());
    ASSERT_EQ(0, std::memcmp(again, bytes.data(), length));
  }
  EXPECT_GT(accepted, rounds / 10);
}

TEST(ByteWriter, AppendsInOrder) {
  ByteWriter writer;
  writer.write(std::uint8_t{1});
  writer.write(std::uint32_t{0x0a0b0c0d});
  writer.write_varint(200);
  writer.write_bytes(bytes_of({9, 8}));
  EXPECT_THAT(writer.take(),
              testing::ElementsAreArray(bytes_of({1, 0x0d, 0x0c, 0x0b, 0x0a, 0xc8, 0x01, 9, 8})));
}

}  // namespace
}  // namespace sparcl
