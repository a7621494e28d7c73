#include "src/net/network_interfaces.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace sparcl::net {
namespace {

using testing::ElementsAre;

NetAddress address(const char* text) {
  NetAddress out;
  if (inet_pton(AF_INET, text, out.ip.data()) == 1) return out;
  out.family = NetAddress::Family::kIpv6;
  EXPECT_EQ(inet_pton(AF_INET6, text, out.ip.data()), 1) << text;
  return out;
}

std::vector<InterfaceAddress> host() {
  return {{"lo", address("127.0.0.1"), true},        {"lo", address("::1"), true},
          {"docker0", address("172.17.0.1"), false}, {"eth0", address("10.0.0.7"), false},
          {"eth0", address("fe80::7"), false},       {"eth0", address("fd00::7"), false},
          {"ib0", address("192.168.3.7"), false}};
}

std::vector<std::string> chosen(std::string_view wanted, std::vector<InterfaceAddress> present) {
  const Result<std::vector<NetAddress>> addresses = choose_addresses(wanted, present);
  if (!addresses.ok()) return {addresses.status().message()};
  std::vector<std::string> texts;
  for (const NetAddress& one : *addresses) texts.push_back(to_text(one));
  return texts;
}

TEST(NetworkInterfaces, AutoTakesAllButLoopbackAndBridgesLast) {
  EXPECT_THAT(chosen("auto", host()),
              ElementsAre("10.0.0.7", "fd00::7", "192.168.3.7", "172.17.0.1"));
}

TEST(NetworkInterfaces, AutoTakesLoopbackWhereThereIsNothingElse) {
  EXPECT_THAT(
      chosen("auto", {{"lo", address("127.0.0.1"), true}, {"eth0", address("fe80::7"), false}}),
      ElementsAre("127.0.0.1"));
}

TEST(NetworkInterfaces, NamesAndBeginningsInTheirOrder) {
  EXPECT_THAT(chosen("ib,eth0,ib0", host()), ElementsAre("192.168.3.7", "10.0.0.7", "fd00::7"));
  EXPECT_THAT(chosen("lo", host()), ElementsAre("127.0.0.1", "::1"));
  EXPECT_THAT(chosen("^docker,ib", host()), ElementsAre("10.0.0.7", "fd00::7"));
}

TEST(NetworkInterfaces, NamesWhatThereIsIfNothingIsLeft) {
  const Result<std::vector<NetAddress>> none = choose_addresses("wlan", host());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(none.status().message(), testing::HasSubstr("SPARCL_INTERFACE=wlan"));
  EXPECT_THAT(none.status().message(), testing::HasSubstr("lo, docker0, eth0, ib0"));
  EXPECT_FALSE(choose_addresses("auto", {}).ok());
  EXPECT_FALSE(choose_addresses(",", host()).ok());
}

TEST(NetworkInterfaces, ThisMachineHasOne) {
  const Result<std::vector<InterfaceAddress>> present = list_interfaces();
  ASSERT_TRUE(present.ok()) << present.status().message();
  EXPECT_TRUE(choose_addresses("auto", *present).ok());
}

TEST(NetAddress, ComesBackFromTheKernelsForm) {
  for (const char* text : {"10.0.0.7", "fd00::7"}) {
    NetAddress one = address(text);
    one.port = 4711;
    EXPECT_EQ(from_socket_address(to_socket_address(one).get()), one);
    ByteWriter out;
    write_ip(one, out);
    ByteReader in(out.bytes());
    NetAddress back;
    ASSERT_TRUE(read_ip(in, back));
    back.port = 4711;
    EXPECT_EQ(back, one);
    for (std::size_t cut = 0; cut < out.bytes().size(); ++cut) {
      ByteReader part(out.bytes().first(cut));
      EXPECT_FALSE(read_ip(part, back));
    }
  }
  EXPECT_FALSE(from_socket_address(nullptr));
  EXPECT_EQ(to_text(loopback_address(80)), "127.0.0.1:80");
}

}  // namespace
}  // namespace sparcl::net
