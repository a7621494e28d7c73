#pragma once
// Sockets that close themselves, never block, are not inherited (CLOEXEC), and raise no SIGPIPE.
// EINTR is handled inside.

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "src/base/error_text.hpp"
#include "src/base/status.hpp"
#include "src/net/net_address.hpp"

namespace sparcl::net {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// Wakes a thread that waits in poll().
class WakeEvent {
 public:
  static Result<WakeEvent> create();
  int fd() const { return event_.fd(); }
  void wake() const;
  void drain() const;

 private:
  Socket event_;
};

double monotonic_seconds();

// poll() until an entry is ready or monotonic_seconds() reaches the deadline. Returns the number of
// ready entries; 0 at the deadline.
int poll_until(std::span<pollfd> entries, double deadline);

// The result of one attempt to move bytes. kClosed: the other side has ended its stream, or reset
// it; `error` is then errno, or 0.
struct Moved {
  enum class Kind : std::uint8_t { kBytes, kWouldBlock, kClosed };
  Kind kind = Kind::kBytes;
  std::size_t bytes = 0;
  int error = 0;
};
Moved read_some(const Socket& socket, std::span<std::byte> out);
Moved write_some(const Socket& socket, std::span<const std::byte> bytes);

// Streams. Port 0: the kernel chooses, and local_address tells the port.
Result<Socket> listen_at(const NetAddress& address, int backlog);
Result<NetAddress> local_address(const Socket& socket);
Result<Socket> start_connect(
    const NetAddress& address);  // writable once connected, or once it failed: connect_error
int connect_error(const Socket& socket);  // errno of start_connect's attempt, 0: connected
void send_at_once(const Socket& socket);  // TCP_NODELAY

std::size_t unacknowledged_bytes(
    const Socket& socket);  // sent, but not yet at the other machine; 0 if that is not known

}  // namespace sparcl::net
