#pragma once
// An address of a socket, IPv4 or IPv6, as value, as text and as bytes of a message.

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/bytes.hpp"

namespace sparcl::net {

struct NetAddress {
  enum class Family : std::uint8_t { kIpv4 = 4, kIpv6 = 6 };

  Family family = Family::kIpv4;
  std::uint16_t port = 0;
  std::array<std::byte, 16> ip{};  // in network order; IPv4: the first four, the rest zero
  std::uint32_t scope = 0;  // the interface's index, of a link-local IPv6 address; it means nothing
                            // on another machine

  std::size_t ip_bytes() const { return family == Family::kIpv4 ? 4 : 16; }
  friend bool operator==(const NetAddress&, const NetAddress&) = default;
};

// A sockaddr of the right length for the kernel.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress to_socket_address(const NetAddress& address);
std::optional<NetAddress> from_socket_address(
    const sockaddr* address);  // nothing for other families, and for nullptr

NetAddress loopback_address(std::uint16_t port = 0);  // 127.0.0.1
bool is_loopback(
    const NetAddress& address);  // 127/8, ::1, ::ffff:127/104: this machine alone reaches it
bool is_link_local(const NetAddress& address);  // fe80::/10, 169.254/16: valid on one link only

// "10.0.0.7:4711", "[fd00::7]:4711", "[fe80::7%eth0]:4711"; without a port if that is 0.
std::string to_text(const NetAddress& address);

void write_ip(const NetAddress& address, ByteWriter& out);
[[nodiscard]] bool read_ip(ByteReader& bytes,
                           NetAddress& address);  // false: truncated, or an unknown family

}  // namespace sparcl::net
