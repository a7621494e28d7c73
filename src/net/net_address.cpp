#include "src/net/net_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace sparcl::net {
namespace {

std::string scope_text(std::uint32_t scope) {
  if (scope == 0) return "";
  std::array<char, IF_NAMESIZE> name{};
  return if_indextoname(scope, name.data()) != nullptr ? fmt::format("%{}", name.data())
                                                       : fmt::format("%{}", scope);
}

}  // namespace

SocketAddress to_socket_address(const NetAddress& address) {
  SocketAddress out;
  if (address.family == NetAddress::Family::kIpv4) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.ip.data(), sizeof in.sin_addr);
    out.bytes = sizeof in;
    std::memcpy(&out.storage, &in, sizeof in);
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(address.port);
    in.sin6_scope_id = address.scope;
    std::memcpy(&in.sin6_addr, address.ip.data(), sizeof in.sin6_addr);
    out.bytes = sizeof in;
    std::memcpy(&out.storage, &in, sizeof in);
  }
  return out;
}

std::optional<NetAddress> from_socket_address(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  NetAddress out;
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    out.port = ntohs(in.sin_port);
    std::memcpy(out.ip.data(), &in.sin_addr, sizeof in.sin_addr);
    return out;
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, address, sizeof in);
    out.family = NetAddress::Family::kIpv6;
    out.port = ntohs(in.sin6_port);
    std::memcpy(out.ip.data(), &in.sin6_addr, sizeof in.sin6_addr);
    if (is_link_local(out)) out.scope = in.sin6_scope_id;
    return out;
  }
  return std::nullopt;
}

NetAddress loopback_address(std::uint16_t port) {
  NetAddress address;
  address.port = port;
  address.ip[0] = std::byte{127};
  address.ip[3] = std::byte{1};
  return address;
}

bool is_loopback(const NetAddress& address) {
  if (address.family == NetAddress::Family::kIpv4) return address.ip[0] == std::byte{127};
  NetAddress one, mapped;  // ::1, and ::ffff:127.0.0.0/104
  one.ip.back() = std::byte{1};
  mapped.ip[10] = mapped.ip[11] = std::byte{0xff};
  mapped.ip[12] = std::byte{127};
  return address.ip == one.ip ||
         std::equal(mapped.ip.begin(), mapped.ip.begin() + 13, address.ip.begin());
}

bool is_link_local(const NetAddress& address) {
  if (address.family == NetAddress::Family::kIpv4)
    return address.ip[0] == std::byte{169} && address.ip[1] == std::byte{254};
  return address.ip[0] == std::byte{0xfe} && (address.ip[1] & std::byte{0xc0}) == std::byte{0x80};
}

std::string to_text(const NetAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = address.family == NetAddress::Family::kIpv4;
  inet_ntop(v4 ? AF_INET : AF_INET6, address.ip.data(), text.data(), text.size());
  const std::string ip = std::string(text.data()) + scope_text(address.scope);
  if (address.port == 0) return ip;
  return v4 ? fmt::format("{}:{}", ip, address.port) : fmt::format("[{}]:{}", ip, address.port);
}

void write_ip(const NetAddress& address, ByteWriter& out) {
  out.write(static_cast<std::uint8_t>(address.family));
  out.write_bytes(std::span(address.ip).first(address.ip_bytes()));
}

bool read_ip(ByteReader& bytes, NetAddress& address) {
  std::uint8_t family = 0;
  if (!bytes.read(family) || (family != 4 && family != 6)) return false;
  address = {};
  address.family = static_cast<NetAddress::Family>(family);
  std::span<const std::byte> ip;
  if (!bytes.read_bytes(address.ip_bytes(), ip)) return false;
  std::memcpy(address.ip.data(), ip.data(), ip.size());
  return true;
}

}  // namespace sparcl::net
