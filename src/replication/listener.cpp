#include "src/replication/listener.hpp"

#include <algorithm>
#include <vector>

#include "src/transport/host_port.hpp"
#include "src/transport/network_interfaces.hpp"

namespace sparcl::replication {
namespace {

constexpr int kBacklog = 256;

NetAddress any_address(std::uint16_t port) {
  NetAddress any;
  any.port = port;
  return any;
}

}  // namespace

// Where no host is given, on all interfaces; replicas are then told the best one's address.
Result<Listener> Listener::open(const std::string& where) {
  const Result<HostPort> parsed = parse_host_port(where.empty() ? ":0" : where);
  if (!parsed.ok()) return parsed.status();
  NetAddress bound = any_address(parsed->port);
  if (!parsed->host.empty()) {
    const Result<std::vector<NetAddress>> found = resolve(*parsed);
    if (!found.ok()) return found.status();
    bound = found->front();
  }
  Result<Socket> socket = listen_at(bound, kBacklog);
  if (!socket.ok()) return socket.status();
  Result<NetAddress> local = local_address(*socket);
  if (!local.ok()) return local.status();
  NetAddress told = *local;
  if (told.ip == any_address(0).ip) {
    const Result<std::vector<NetAddress>> own = own_addresses();
    const auto ipv4 = own.ok() ? std::find_if(own->begin(), own->end(),
                                              [](const NetAddress& each) { return each.family == NetAddress::Family::kIpv4; })
                               : std::vector<NetAddress>::const_iterator();
    told = own.ok() && ipv4 != own->end() ? *ipv4 : loopback_address();
    told.port = local->port;
  }
  return Listener{std::move(*socket), to_text(told)};
}

}  // namespace sparcl::replication
