#include "src/replication/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "src/net/name_lookup.hpp"
#include "src/net/network_interfaces.hpp"

namespace sparcl::replication {
namespace {

constexpr int kBacklog = 4096;            // the system's limit counts, too (net.core.somaxconn)
constexpr double kResolverPatience = 10;  // seconds

net::NetAddress any_address(net::NetAddress::Family family, std::uint16_t port) {
  net::NetAddress any;
  any.family = family;
  any.port = port;
  return any;
}

net::NetAddress loopback_of(net::NetAddress::Family family) {
  if (family == net::NetAddress::Family::kIpv4) return net::loopback_address();
  net::NetAddress loopback = any_address(family, 0);
  loopback.ip.back() = std::byte{1};
  return loopback;
}

// An address of this machine, in the family of the socket: peers cannot connect to an address of
// the other family.
net::NetAddress best_address(net::NetAddress::Family family) {
  const Result<std::vector<net::NetAddress>> own = net::own_addresses();
  if (!own.ok()) return loopback_of(family);
  const auto best = std::ranges::find(*own, family, &net::NetAddress::family);
  return best != own->end() ? *best : loopback_of(family);
}

// Where no host is given, on all interfaces, IPv4; replicas are then told the best one's address.
Result<net::NetAddress> address_of(const std::string& where) {
  SPARCL_ASSIGN_OR_RETURN(const net::HostPort parsed,
                          net::parse_host_port(where.empty() ? "127.0.0.1:0" : where));
  if (parsed.host.empty()) return any_address(net::NetAddress::Family::kIpv4, parsed.port);
  SPARCL_ASSIGN_OR_RETURN(const std::vector<net::NetAddress> found,
                          resolve_until(parsed, net::monotonic_seconds() + kResolverPatience));
  return found.front();
}

}  // namespace

bool is_reachable(const std::string& where) {
  const Result<net::NetAddress> address = address_of(where);
  return address.ok() && !net::is_loopback(*address);
}

Result<Listener> Listener::open(const std::string& where, Reach reach) {
  SPARCL_ASSIGN_OR_RETURN(const net::NetAddress bound, address_of(where));
  if (reach == Reach::kThisMachine && !net::is_loopback(bound)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("other machines can reach {}, and no secret is given: give --secret "
                    "FILE (options.secret_path; sparcl secret makes it) or --certificates FOLDER. "
                    "If every process that reaches the port may read what is sent: --insecure "
                    "(options.insecure)",
                    where));
  }
  SPARCL_ASSIGN_OR_RETURN(net::Socket socket, listen_at(bound, kBacklog));
  SPARCL_ASSIGN_OR_RETURN(const net::NetAddress local, local_address(socket));
  net::NetAddress told = local;
  if (told == any_address(told.family, told.port)) {
    told = best_address(told.family);
    told.port = local.port;
  }
  return Listener{std::move(socket), to_text(told)};
}

}  // namespace sparcl::replication
