#include "src/replication/listener.hpp"

#include <gtest/gtest.h>

#include "src/net/host_port.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

// Somebody listens at the address that is told.
void expect_reached(const std::string& where) {
  const Result<Listener> listener = Listener::open(where, Reach::kNetwork);
  if (!listener.ok()) GTEST_SKIP() << listener.status().message();
  const Result<net::HostPort> told = net::parse_host_port(listener->address);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_NE(told->port, 0);
  RawPeer peer = RawPeer::connect(listener->address);
  EXPECT_EQ(connect_error(peer.link().socket()), 0) << listener->address;
  pollfd entry{listener->socket.fd(), POLLIN, 0};
  EXPECT_EQ(net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + RawPeer::kPatience), 1)
      << listener->address;
}

TEST(Listener, TellsAnAddressWhereItIsReached) {
  expect_reached("");
  expect_reached(":0");
  expect_reached("0.0.0.0:0");
  expect_reached("127.0.0.1:0");
}

TEST(Listener, IsReachedByOtherMachinesOnlyWhereThatIsAllowed) {
  for (const char* where : {"", "127.0.0.1:0", "127.9.9.9:0", "localhost:0"}) {
    EXPECT_TRUE(Listener::open(where, Reach::kThisMachine).ok()) << where;
    EXPECT_FALSE(is_reachable(where)) << where;
  }
  for (const char* where : {"[::1]:0", "[::ffff:127.0.0.1]:0", "[::ffff:127.9.9.9]:0"}) {
    EXPECT_FALSE(is_reachable(where)) << where;  // if the machine has IPv6
    EXPECT_NE(Listener::open(where, Reach::kThisMachine).status().code(), Code::kInvalidArgument);
  }
  for (const char* where : {":0", "0.0.0.0:0", "[::]:0", "10.1.2.3:0", "[::ffff:10.1.2.3]:0"}) {
    const Status refused = Listener::open(where, Reach::kThisMachine).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << where;
    EXPECT_NE(std::string(refused.message()).find("--secret FILE"), std::string::npos);
    EXPECT_NE(std::string(refused.message()).find("--insecure"), std::string::npos);
    EXPECT_TRUE(is_reachable(where)) << where;
  }
}

TEST(Listener, TellsAnAddressOfIpv6WhereItIsReached) { expect_reached("[::1]:0"); }
TEST(Listener, TellsAnAddressOfIpv6WhereItTakesAllOfThem) { expect_reached("[::]:0"); }

}  // namespace
}  // namespace sparcl::replication
