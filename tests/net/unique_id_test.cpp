#include "src/net/bootstrap/unique_id.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/checksum.hpp"
#include "src/base/seeded_random.hpp"

namespace sparcl::net {
namespace {

using Bytes = std::array<std::byte, kUniqueIdBytes>;

UniqueId example() {
  UniqueId id;
  id.port = 4711;
  for (std::size_t i = 0; i < id.secret.size(); ++i) id.secret[i] = static_cast<std::byte>(i + 1);
  NetAddress v6 = loopback_address(4711);
  v6.family = NetAddress::Family::kIpv6;
  for (std::size_t i = 0; i < 16; ++i) v6.ip[i] = static_cast<std::byte>(0x20 + i);
  id.addresses = {v6, loopback_address(4711)};
  return id;
}

void sum(Bytes& bytes) { store_le(bytes.data() + 124, crc32c(std::span(bytes).first(124))); }

TEST(UniqueId, ComesBack) {
  const Result<UniqueId> back = decode_unique_id(encode_unique_id(example()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, example());
}

TEST(UniqueId, TakesAsManyAddressesAsFit) {
  UniqueId id = example();
  const NetAddress v6 = id.addresses[0];
  id.addresses.assign(40, v6);
  EXPECT_EQ(addresses_that_fit(id.addresses), 5U);
  EXPECT_EQ(decode_unique_id(encode_unique_id(id))->addresses.size(), 5U);
  id.addresses.assign(40, loopback_address(4711));
  EXPECT_EQ(addresses_that_fit(id.addresses), 19U);
  EXPECT_EQ(decode_unique_id(encode_unique_id(id))->addresses.size(), 19U);
}

void expect_refused(const Bytes& bytes) {
  const Result<UniqueId> id = decode_unique_id(bytes);
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(id.status().message(), testing::HasSubstr("sparclGetUniqueId"));
}

TEST(UniqueId, RefusesGarbage) {
  expect_refused({});
  Bytes ones;
  ones.fill(std::byte{0xff});
  expect_refused(ones);
  const Bytes good = encode_unique_id(example());
  for (std::size_t cut = 0; cut < 124; ++cut) {  // a C string's copy ends at a zero
    Bytes bytes{};
    std::copy_n(good.begin(), cut, bytes.begin());
    expect_refused(bytes);
  }
  for (std::size_t bit = 0; bit < 8 * kUniqueIdBytes; ++bit) {
    Bytes bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    expect_refused(bytes);
  }
}

// With a right sum: whatever it holds, decoding neither reads beyond it nor takes an id without an
// address.
TEST(UniqueId, RefusesWhatIsWrongBelowTheSum) {
  SeededRandom random{7};
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = encode_unique_id(example());
    for (int k = 0; k < 3; ++k)
      bytes[10 + random.below(114)] = static_cast<std::byte>(random.below(256));
    sum(bytes);
    const Result<UniqueId> id = decode_unique_id(bytes);
    if (id.ok()) {
      EXPECT_FALSE(id->addresses.empty());
      EXPECT_NE(id->port, 0);
    } else {
      EXPECT_EQ(id.status().code(), Code::kInvalidArgument);
    }
  }
  UniqueId none = example();
  none.addresses.clear();
  expect_refused(encode_unique_id(none));
  none = example();
  none.port = 0;
  expect_refused(encode_unique_id(none));
}

}  // namespace
}  // namespace sparcl::net
