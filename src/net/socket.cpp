#include "src/net/socket.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace sparcl::net {
namespace {

Status failed(const char* call, const NetAddress& address) {
  const int error = errno;
  return Status(Code::kSystemError,
                fmt::format("{} for {}: {}", call, to_text(address), error_text(error)));
}

Socket open_stream(const NetAddress& address) {
  const int family = address.family == NetAddress::Family::kIpv4 ? AF_INET : AF_INET6;
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

Moved moved(ssize_t count) {
  if (count >= 0) return {Moved::Kind::kBytes, static_cast<std::size_t>(count), 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {Moved::Kind::kWouldBlock, 0, 0};
  return {Moved::Kind::kClosed, 0, errno};
}

// Advice for the user.
const char* remedy_of_bind(int error) {
  if (error == EADDRINUSE)
    return ": another process listens there. Give another port, or 0 for any free port";
  if (error == EADDRNOTAVAIL) return ": no interface of this host that is up has this address";
  return error == EACCES ? ": ports below 1024 are for privileged users. Give another port" : "";
}

// Where nobody listens, the kernel may choose the port that is connected to as the socket's own:
// TCP then connects the socket to itself (simultaneous open, RFC 9293, section 3.5). Such a socket
// must not keep the port from the one that is to listen there, nor leave it in TIME_WAIT.
bool is_its_own_peer(const Socket& socket) {
  SocketAddress own, peer;
  if (::getsockname(socket.fd(), own.get(), &own.bytes) != 0 ||
      ::getpeername(socket.fd(), peer.get(), &peer.bytes) != 0)
    return false;
  const std::optional<NetAddress> here = from_socket_address(own.get());
  if (!here || here != from_socket_address(peer.get())) return false;
  const linger at_once{1, 0};
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  return true;
}

}  // namespace

void Socket::close() {
  if (fd_ >= 0)
    ::close(std::exchange(fd_, -1));  // on Linux the descriptor is gone even after EINTR
}

Result<WakeEvent> WakeEvent::create() {
  WakeEvent made;
  made.event_ = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made.event_.is_open())
    return Status(Code::kSystemError, fmt::format("eventfd(): {}", error_text(errno)));
  return made;
}

void WakeEvent::wake() const {
  const std::uint64_t one = 1;
  while (::write(fd(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void WakeEvent::drain() const {
  std::uint64_t count = 0;
  while (::read(fd(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int poll_until(std::span<pollfd> entries, double deadline) {
  while (true) {
    const double left = deadline - monotonic_seconds();
    // A minute at most, so that no number overflows.
    const auto wait_ns = static_cast<long>(std::clamp(left, 0.0, 60.0) * 1e9);
    const timespec wait{wait_ns / 1'000'000'000, wait_ns % 1'000'000'000};
    const int ready = ::ppoll(entries.data(), entries.size(), &wait, nullptr);
    if (ready > 0) return ready;
    if (ready < 0 && errno != EINTR) return 0;
    if (left <= 0) return 0;
  }
}

Moved read_some(const Socket& socket, std::span<std::byte> out) {
  ssize_t count = 0;
  do {
    count = ::recv(socket.fd(), out.data(), out.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count == 0 && !out.empty()) return {Moved::Kind::kClosed, 0, 0};
  return moved(count);
}

Moved write_some(const Socket& socket, std::span<const std::byte> bytes) {
  ssize_t count = 0;
  do {
    count = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  return moved(count);
}

Result<Socket> listen_at(const NetAddress& address, int backlog) {
  Socket socket = open_stream(address);
  if (!socket.is_open()) return failed("socket()", address);
  const int on = 1;
  if (address.family == NetAddress::Family::kIpv6)
    setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  // Another process can take the port after this one was killed, while its connections are still
  // ending: both must have set this. Not set if the kernel chooses the port, because it would give
  // two processes the same one.
  if (address.port != 0) setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const SocketAddress where = to_socket_address(address);
  if (::bind(socket.fd(), where.get(), where.bytes) != 0) {
    const char* remedy = remedy_of_bind(errno);
    const Status status = failed("bind()", address);
    return Status(status.code(), status.message() + remedy);
  }
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::listen(socket.fd(), backlog) != 0) return failed("listen()", address);
  return socket;
}

Result<NetAddress> local_address(const Socket& socket) {
  SocketAddress where;
  if (::getsockname(socket.fd(), where.get(), &where.bytes) == 0) {
    if (const std::optional<NetAddress> address = from_socket_address(where.get())) return *address;
  }
  return Status(Code::kSystemError, fmt::format("getsockname(): {}", error_text(errno)));
}

Result<Socket> start_connect(const NetAddress& address) {
  Socket socket = open_stream(address);
  if (!socket.is_open()) return failed("socket()", address);
  const SocketAddress where = to_socket_address(address);
  // After EINTR the connection attempt continues, as after EINPROGRESS.
  if (::connect(socket.fd(), where.get(), where.bytes) == 0 || errno == EINPROGRESS ||
      errno == EINTR)
    return socket;
  return failed("connect()", address);
}

int connect_error(const Socket& socket) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return errno;
  return error == 0 && is_its_own_peer(socket) ? ECONNREFUSED : error;
}

void send_at_once(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::size_t unacknowledged_bytes(const Socket& socket) {
  int bytes = 0;
  return ::ioctl(socket.fd(), TIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes)
                                                                  : 0;
}

}  // namespace sparcl::net
