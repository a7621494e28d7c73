#pragma once
// "HOST:PORT" as users write it, and the addresses that it stands for.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/net_address.hpp"

namespace sparcl::net {

struct HostPort {
  std::string host;  // a name or an address; empty: none was given
  std::uint16_t port = 0;
};

// "node7:4711", "10.0.0.7:4711", "[fd00::7]:4711", ":4711". InvalidArgument names the error in any
// other text.
Result<HostPort> parse_host_port(std::string_view text);

// Several, with commas between them. InvalidArgument names the first that is none.
Result<std::vector<HostPort>> parse_host_ports(std::string_view text);

// The address, if the host is a numeric one ("10.0.0.7", "::1", "fe80::7%eth0") or empty, which is
// this machine's loopback. Never asks the system's resolver. Nothing: the host is a name.
std::optional<NetAddress> numeric_address(const HostPort& where);

// Numeric addresses at once; names by the system's resolver, which may take seconds.
Result<std::vector<NetAddress>> resolve(const HostPort& where);

}  // namespace sparcl::net
