#pragma once
// One UDP socket for each of IPv4 and IPv6 that the host has, at ports that the kernel chooses.
// They report destinations that refuse.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/status.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {

class DatagramSockets {
 public:
  DatagramSockets() = default;  // none
  static Result<DatagramSockets> open();

  std::uint16_t port(NetAddress::Family family) const;  // 0: there is no such socket
  std::array<int, 2> descriptors() const { return {v4_.fd(), v6_.fd()}; }  // -1: none

  // Best effort.
  void send(const NetAddress& to, std::span<const std::byte> bytes) const;

  struct Datagram {
    NetAddress from;
    std::span<const std::byte> bytes;  // points into `space`; a longer datagram is cut
    bool whole = true;
  };
  std::optional<Datagram> receive(std::span<std::byte> space) const;

  // A destination whose host itself says that its port is closed.
  std::optional<NetAddress> next_refusal() const;

 private:
  Socket v4_;
  Socket v6_;
  std::uint16_t port_v4_ = 0;
  std::uint16_t port_v6_ = 0;
};

}  // namespace sparcl::net
