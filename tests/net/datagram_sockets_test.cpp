#include "src/net/heartbeat/datagram_sockets.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace sparcl::net {
namespace {

constexpr double kNoHurry = 60;

NetAddress here(NetAddress::Family family, std::uint16_t port) {
  NetAddress address = loopback_address(port);
  if (family == NetAddress::Family::kIpv4) return address;
  address.family = family;
  address.ip = {};
  address.ip[15] = std::byte{1};
  return address;
}

void wait(const DatagramSockets& sockets) {
  std::array<pollfd, 2> entries{pollfd{sockets.descriptors()[0], POLLIN, 0},
                                pollfd{sockets.descriptors()[1], POLLIN, 0}};
  EXPECT_GT(poll_until(entries, monotonic_seconds() + kNoHurry), 0);
}

class DatagramFamilies : public testing::TestWithParam<NetAddress::Family> {};
INSTANTIATE_TEST_SUITE_P(Families, DatagramFamilies,
                         testing::Values(NetAddress::Family::kIpv4, NetAddress::Family::kIpv6));

TEST_P(DatagramFamilies, CarryBytesAndKnowRefusals) {
  Result<DatagramSockets> one = DatagramSockets::open(), other = DatagramSockets::open();
  ASSERT_TRUE(one.ok() && other.ok());
  if (one->port(GetParam()) == 0) GTEST_SKIP() << "this machine has no such network";
  const NetAddress to = here(GetParam(), other->port(GetParam()));
  const std::string_view text = "beat";
  one->send(to, std::as_bytes(std::span(text)));
  wait(*other);
  std::array<std::byte, 4> space;
  const auto datagram = other->receive(space);
  if (!datagram) GTEST_SKIP() << "this machine has no such loopback";
  EXPECT_TRUE(datagram->whole);
  EXPECT_EQ(datagram->bytes.size(), 4U);
  EXPECT_EQ(datagram->from, here(GetParam(), one->port(GetParam())));
  EXPECT_FALSE(other->receive(space));

  one->send(to, std::as_bytes(std::span("longer")));
  wait(*other);
  const auto longer = other->receive(space);
  ASSERT_TRUE(longer);
  EXPECT_FALSE(longer->whole);
  EXPECT_FALSE(one->next_refusal());

  *other = DatagramSockets();
  one->send(to, std::as_bytes(std::span(text)));
  wait(*one);
  EXPECT_EQ(one->next_refusal(), to);
  EXPECT_FALSE(one->next_refusal());
  EXPECT_FALSE(one->receive(space));
}

}  // namespace
}  // namespace sparcl::net
