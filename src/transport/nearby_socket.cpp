#include "src/transport/nearby_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace sparcl {
namespace {

// Without a file: the name begins with a zero.
struct NearbyAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

NearbyAddress nearby_address(const std::string& name) {
  NearbyAddress made;
  made.address.sun_family = AF_UNIX;
  const std::size_t count = std::min(name.size(), sizeof made.address.sun_path - 1);
  std::memcpy(made.address.sun_path + 1, name.data(), count);
  made.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  return made;
}

Socket open_nearby() { return Socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

Status failed(const char* call, const std::string& name) {
  return Status(Code::kSystemError, fmt::format("{} for the local socket {}: {}", call, name, error_text(errno)));
}

Moved failed_move() {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {Moved::Kind::kWouldBlock, 0, 0};
  return {Moved::Kind::kClosed, 0, errno};
}

// Has room for two descriptors, as lengths are rounded up; the kernel closes what finds none.
union Rights {
  cmsghdr head;
  std::array<char, CMSG_SPACE(sizeof(int))> room;
};

// All that came must be closed by somebody.
Socket take_first_descriptor(msghdr& header) {
  Socket first;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= control->cmsg_len; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, reinterpret_cast<const char*>(control) + at, sizeof descriptor);
      Socket received(descriptor);
      if (!first.is_open()) first = std::move(received);
    }
  }
  return first;
}

}  // namespace

Result<Socket> listen_nearby(const std::string& name, int backlog) {
  Socket socket = open_nearby();
  const NearbyAddress where = nearby_address(name);
  if (!socket.is_open()) return failed("socket()", name);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&where.address), where.bytes) != 0) return failed("bind()", name);
  if (::listen(socket.fd(), backlog) != 0) return failed("listen()", name);
  return socket;
}

Result<Socket> connect_nearby(const std::string& name) {
  Socket socket = open_nearby();
  const NearbyAddress where = nearby_address(name);
  if (!socket.is_open()) return failed("socket()", name);
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&where.address), where.bytes) != 0) return failed("connect()", name);
  return socket;
}

std::optional<Socket> accept_nearby(const Socket& listener) {
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.is_open()) return {};
  return socket;
}

Moved send_nearby(const Socket& socket, std::span<const std::byte> message, int descriptor) {
  iovec piece{const_cast<std::byte*>(message.data()), message.size()};
  Rights rights{};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = &rights;
    header.msg_controllen = CMSG_SPACE(sizeof(int));
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }
  ssize_t count = 0;
  do {
    count = ::sendmsg(socket.fd(), &header, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return failed_move();
  return {Moved::Kind::kBytes, static_cast<std::size_t>(count), 0};
}

NearbyMessage receive_nearby(const Socket& socket, std::span<std::byte> message) {
  iovec piece{message.data(), message.size()};
  Rights rights{};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = &rights;
  header.msg_controllen = sizeof rights;
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket.fd(), &header, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  NearbyMessage received;
  if (count < 0) {
    received.moved = failed_move();
    return received;
  }
  received.descriptor = take_first_descriptor(header);
  const bool is_whole = static_cast<std::size_t>(count) == message.size() && (header.msg_flags & MSG_TRUNC) == 0;
  received.moved = {is_whole ? Moved::Kind::kBytes : Moved::Kind::kClosed, static_cast<std::size_t>(count), 0};
  return received;
}

}  // namespace sparcl
