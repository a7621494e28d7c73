#pragma once
// "HOST:PORT" as users write it, and the addresses that it stands for.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/transport/net_address.hpp"

namespace sparcl {

struct HostPort {
  std::string host;  // a name or an address; empty: none was given
  std::uint16_t port = 0;
};

// "node7:4711", "10.0.0.7:4711", "[fd00::7]:4711", ":4711". InvalidArgument says what is wrong with others.
Result<HostPort> parse_host_port(std::string_view text);

// By the system's resolver, which may take seconds. An empty host is this machine's loopback.
Result<std::vector<NetAddress>> resolve(const HostPort& where);

}  // namespace sparcl
