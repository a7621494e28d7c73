#include "src/trust/keyed_hash.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sparcl::trust {
namespace {

std::string hex(std::string_view key, std::string_view text) {
  const Result<KeyedHash> hash =
      keyed_hash(std::as_bytes(std::span(key)), std::as_bytes(std::span(text)));
  std::string out;
  if (hash.ok()) {
    for (const std::byte byte : *hash) out += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return out;
}

TEST(KeyedHash, TakesEmptyKeysAndTexts) {
  EXPECT_EQ(hex("", ""), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

// RFC 4231, test cases 1, 2 and 6.
TEST(KeyedHash, IsHmacSha256) {
  EXPECT_EQ(hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(KeyedHash, ComparesEveryByte) {
  std::array<std::byte, 32> a{}, b{};
  EXPECT_TRUE(equal_in_constant_time(a, b));
  for (std::size_t i = 0; i < b.size(); ++i) {
    b = {};
    b[i] = std::byte{0x80};
    EXPECT_FALSE(equal_in_constant_time(a, b)) << i;
  }
  EXPECT_FALSE(equal_in_constant_time(a, std::span(a).first(31)));
  EXPECT_TRUE(equal_in_constant_time({}, {}));
}

TEST(KeyedHash, RandomBytesDiffer) {
  std::array<std::byte, 16> a{}, b{};
  ASSERT_TRUE(fill_random(a).ok());
  ASSERT_TRUE(fill_random(b).ok());
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace sparcl::trust
