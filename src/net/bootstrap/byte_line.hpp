#pragma once
// A connection that never blocks: collects a known number of bytes, and sends queued bytes as the
// network takes them.

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/net/socket.hpp"

namespace sparcl::net {

class ByteLine {
 public:
  enum class Progress { kDone, kMore, kClosed };  // kMore: the network gives or takes no more now

  ByteLine() = default;
  explicit ByteLine(Socket socket) : socket_(std::move(socket)) {}

  const Socket& socket() const { return socket_; }
  bool is_open() const { return socket_.is_open(); }
  void close() { socket_.close(); }

  // Waits for the next `count` bytes; those collected before are dropped. Memory grows with the
  // bytes that arrive, not with `count`.
  void expect(std::uint64_t count);
  Progress read();
  std::span<const std::byte> received() const { return in_; }

  void queue(std::shared_ptr<const std::vector<std::byte>> bytes);
  void queue(std::span<const std::byte> bytes);
  Progress write();
  bool has_queued() const { return !out_.empty(); }

  // Why the connection is closed: "Connection refused", or "the connection was closed".
  std::string why_closed() const;
  int error() const { return error_; }

 private:
  Progress closed(const Moved& step);

  Socket socket_;
  std::vector<std::byte> in_;
  std::uint64_t wanted_ = 0;
  std::deque<std::shared_ptr<const std::vector<std::byte>>> out_;
  std::size_t sent_ = 0;  // of the first in out_
  int error_ = 0;
};

}  // namespace sparcl::net
