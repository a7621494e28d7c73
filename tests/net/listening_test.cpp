#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "src/net/host_port.hpp"
#include "src/net/net_address.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {
namespace {

using ::testing::HasSubstr;

TEST(Listening, APortThatIsTakenIsAnErrorThatSaysWhatToDo) {
  const Result<Socket> first = listen_at(loopback_address(), 1);
  ASSERT_TRUE(first.ok());
  const Result<NetAddress> address = local_address(*first);
  ASSERT_TRUE(address.ok());
  const Result<Socket> second = listen_at(*address, 1);
  EXPECT_EQ(second.status().code(), Code::kSystemError);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(to_text(*address)));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Give another port"));
}

TEST(Listening, AnAddressOfAnotherHostIsNamed) {
  const Result<std::vector<NetAddress>> elsewhere = resolve(*parse_host_port("192.0.2.1:4711"));
  ASSERT_TRUE(elsewhere.ok());
  EXPECT_THAT(std::string(listen_at(elsewhere->front(), 1).status().message()),
              HasSubstr("no interface of this host"));
}

// The kernel does so, rarely, where a port of its own choice is tried and nobody listens there.
TEST(Connecting, ASocketThatReachesItselfIsRefusedAndLeavesThePort) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = to_socket_address(loopback_address());
  ASSERT_EQ(::bind(socket.fd(), any.get(), any.bytes), 0);
  const NetAddress own = *local_address(socket);
  const SocketAddress where = to_socket_address(own);
  ASSERT_EQ(::connect(socket.fd(), where.get(), where.bytes), 0);
  EXPECT_EQ(connect_error(socket), ECONNREFUSED);
  socket.close();
  const Result<Socket> listening = listen_at(own, 1);
  EXPECT_TRUE(listening.ok()) << listening.status().message();
}

}  // namespace
}  // namespace sparcl::net
