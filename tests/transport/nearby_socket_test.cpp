#include "src/transport/nearby_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace sparcl {
namespace {

using Message = std::array<std::byte, 4>;

struct Pair {
  Socket listener, one, other;
};

Pair connected(const std::string& name) {
  Pair pair;
  pair.listener = std::move(*listen_nearby(name, 4));
  pair.one = std::move(*connect_nearby(name));
  pair.other = std::move(*accept_nearby(pair.listener));
  return pair;
}

std::string own_name(const char* what) { return "sparcl-test-" + std::to_string(::getpid()) + "-" + what; }

int open_descriptors() {
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) count += each.path().empty() ? 0 : 1;
  return count;
}

TEST(NearbySocket, CarriesMessagesAndDescriptors) {
  const Pair pair = connected(own_name("carries"));
  const Message sent{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Socket reader(ends[0]);
  {
    const Socket writer(ends[1]);
    ASSERT_EQ(send_nearby(pair.one, sent, writer.fd()).kind, Moved::Kind::kBytes);
  }
  ASSERT_EQ(send_nearby(pair.one, sent, -1).kind, Moved::Kind::kBytes);
  Message received{};
  NearbyMessage came = receive_nearby(pair.other, received);
  ASSERT_EQ(came.moved.kind, Moved::Kind::kBytes);
  EXPECT_EQ(received, sent);
  ASSERT_TRUE(came.descriptor.is_open());
  EXPECT_EQ(::fcntl(came.descriptor.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ASSERT_EQ(::write(came.descriptor.fd(), "x", 1), 1);
  char letter = 0;
  ASSERT_EQ(::read(reader.fd(), &letter, 1), 1);
  EXPECT_EQ(letter, 'x');
  EXPECT_FALSE(receive_nearby(pair.other, received).descriptor.is_open());
  EXPECT_EQ(receive_nearby(pair.other, received).moved.kind, Moved::Kind::kWouldBlock);
}

TEST(NearbySocket, AMessageOfAnotherLengthIsNone) {
  const Pair pair = connected(own_name("length"));
  std::array<std::byte, 100> longer{};
  Message received{};
  ASSERT_EQ(send_nearby(pair.one, longer, -1).kind, Moved::Kind::kBytes);
  EXPECT_EQ(receive_nearby(pair.other, received).moved.kind, Moved::Kind::kClosed);
  ASSERT_EQ(send_nearby(pair.one, received, -1).kind, Moved::Kind::kBytes);
  EXPECT_EQ(receive_nearby(pair.other, longer).moved.kind, Moved::Kind::kClosed);
}

TEST(NearbySocket, TheOtherSidesEndIsSeen) {
  Pair pair = connected(own_name("end"));
  pair.one.close();
  Message received{};
  EXPECT_EQ(receive_nearby(pair.other, received).moved.kind, Moved::Kind::kClosed);
  EXPECT_EQ(send_nearby(pair.other, received, -1).kind, Moved::Kind::kClosed);
  EXPECT_FALSE(connect_nearby(own_name("nobody")).ok());
  EXPECT_FALSE(listen_nearby(own_name("end"), 1).ok());  // the name is taken
}

// Whoever sends more than was asked for leaves nothing open here.
TEST(NearbySocket, DescriptorsThatNobodyAskedForAreClosed) {
  const Pair pair = connected(own_name("many"));
  const int before = open_descriptors();
  for (const std::size_t many : {2U, 3U, 50U}) {
    const Socket zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    Message text{};
    iovec piece{text.data(), text.size()};
    std::vector<char> room(CMSG_SPACE(many * sizeof(int)));
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = room.data();
    header.msg_controllen = room.size();
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(many * sizeof(int));
    const std::vector<int> descriptors(many, zero.fd());
    std::memcpy(CMSG_DATA(control), descriptors.data(), many * sizeof(int));
    ASSERT_GT(::sendmsg(pair.one.fd(), &header, 0), 0);
    const NearbyMessage came = receive_nearby(pair.other, text);
    EXPECT_TRUE(came.descriptor.is_open());
    EXPECT_EQ(open_descriptors(), before + 2);  // zero, and the one that came
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace sparcl
