#include "src/net/heartbeat/datagram_sockets.hpp"

#include <fmt/format.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sparcl::net {
namespace {

using Family = NetAddress::Family;

// A wildcard address, because routes may change. The token authenticates the sender, and the error
// queue names the address of a closed port.
Socket open_one(Family family, std::uint16_t& port) {
  const bool v4 = family == Family::kIpv4;
  Socket socket(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return {};
  const int on = 1;
  if (!v4) setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  setsockopt(socket.fd(), v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, &on,
             sizeof on);
  NetAddress any;
  any.family = family;
  const SocketAddress where = to_socket_address(any);
  if (::bind(socket.fd(), where.get(), where.bytes) != 0) return {};
  const Result<NetAddress> own = local_address(socket);
  if (!own.ok()) return {};
  port = own->port;
  return socket;
}

// Errors of earlier datagrams are returned here too, once each, instead of a datagram.
std::optional<DatagramSockets::Datagram> receive_from(const Socket& socket,
                                                      std::span<std::byte> space) {
  if (!socket.is_open()) return std::nullopt;
  for (int i = 0; i < 64; ++i) {
    SocketAddress from;
    const ssize_t count =
        ::recvfrom(socket.fd(), space.data(), space.size(), MSG_TRUNC, from.get(), &from.bytes);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (count < 0) continue;
    const std::optional<NetAddress> address = from_socket_address(from.get());
    if (!address) continue;
    const auto bytes = static_cast<std::size_t>(count);
    return DatagramSockets::Datagram{*address, space.first(std::min(bytes, space.size())),
                                     bytes <= space.size()};
  }
  return std::nullopt;
}

// Whether the host `to` itself says that its port is closed. If a network is cut, a gateway or a
// firewall may refuse packets; the refusal then has its own address.
bool is_refusal(msghdr& message, const NetAddress& to) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    const bool v4 = part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR;
    const bool v6 = part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR;
    if ((!v4 && !v6) ||
        part->cmsg_len <
            CMSG_LEN(sizeof(sock_extended_err) + (v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))))
      continue;
    struct {
      sock_extended_err error;
      sockaddr_storage offender;
    } told{};
    std::memcpy(&told, CMSG_DATA(part),
                std::min<std::size_t>(part->cmsg_len - CMSG_LEN(0), sizeof told));
    if (told.error.ee_errno != ECONNREFUSED) return false;
    if (told.error.ee_origin != SO_EE_ORIGIN_ICMP && told.error.ee_origin != SO_EE_ORIGIN_ICMP6)
      return false;
    const std::optional<NetAddress> by =
        from_socket_address(reinterpret_cast<const sockaddr*>(&told.offender));
    return by && by->family == to.family && by->ip == to.ip;
  }
  return false;
}

std::optional<NetAddress> refusal_from(const Socket& socket) {
  if (!socket.is_open()) return std::nullopt;
  while (true) {
    SocketAddress to;
    std::array<std::byte, 64> content;
    alignas(cmsghdr) std::array<std::byte, 512> control;
    iovec part{content.data(), content.size()};
    msghdr message{};
    message.msg_name = to.get();
    message.msg_namelen = to.bytes;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket.fd(), &message, MSG_ERRQUEUE) < 0) {
      if (errno == EINTR) continue;
      return std::nullopt;
    }
    const std::optional<NetAddress> address = from_socket_address(to.get());
    if (address && is_refusal(message, *address)) return address;
  }
}

}  // namespace

Result<DatagramSockets> DatagramSockets::open() {
  DatagramSockets made;
  made.v4_ = open_one(Family::kIpv4, made.port_v4_);
  const int error = errno;
  made.v6_ = open_one(Family::kIpv6, made.port_v6_);
  if (made.v4_.is_open() || made.v6_.is_open()) return made;
  return Status(Code::kSystemError,
                fmt::format("no UDP socket for heartbeats: {}; SPARCL_HEARTBEAT=off does without",
                            error_text(error)));
}

std::uint16_t DatagramSockets::port(Family family) const {
  return family == Family::kIpv4 ? port_v4_ : port_v6_;
}

// An error of an earlier datagram is returned by the next send, whatever its destination. That send
// must be repeated.
void DatagramSockets::send(const NetAddress& to, std::span<const std::byte> bytes) const {
  const Socket& socket = to.family == Family::kIpv4 ? v4_ : v6_;
  if (!socket.is_open()) return;
  const SocketAddress where = to_socket_address(to);
  for (int i = 0; i < 3; ++i) {
    if (::sendto(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL, where.get(), where.bytes) >=
        0)
      return;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
  }
}

std::optional<DatagramSockets::Datagram> DatagramSockets::receive(
    std::span<std::byte> space) const {
  std::optional<Datagram> datagram = receive_from(v4_, space);
  return datagram ? datagram : receive_from(v6_, space);
}

std::optional<NetAddress> DatagramSockets::next_refusal() const {
  std::optional<NetAddress> refusal = refusal_from(v4_);
  return refusal ? refusal : refusal_from(v6_);
}

}  // namespace sparcl::net
