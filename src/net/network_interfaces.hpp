#pragma once
// The addresses under which other machines reach this one: the setting INTERFACE.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/net_address.hpp"

namespace sparcl::net {

struct InterfaceAddress {
  std::string name;    // "eth0"
  NetAddress address;  // port 0
  bool loopback = false;
};

// The addresses of all interfaces that are up and running, in the kernel's order.
Result<std::vector<InterfaceAddress>> list_interfaces();

// The addresses of `present` that `wanted` allows, the best first.
// - "auto": all but loopback, which is used if there is nothing else. Bridges of containers and
//   virtual machines are last.
// - "eth,ib0": interfaces whose names begin so, in this order. "lo" is a name like others.
// - "^docker": all but loopback and interfaces whose names begin so.
//
// IPv6 link-local addresses are left out: they need the name of an interface, which differs from
// host to host. InvalidArgument, with the names of all interfaces, if nothing is left.
Result<std::vector<NetAddress>> choose_addresses(std::string_view wanted,
                                                 std::span<const InterfaceAddress> present);

// Both steps, with the setting in force.
Result<std::vector<NetAddress>> own_addresses();

// The names of the interfaces that the setting in force allows, the best first. Empty for "auto",
// which allows all.
Result<std::vector<std::string>> chosen_interfaces();

// The RDMA devices behind an interface, with their port: "mlx5_0:1". From /sys/class/net.
std::vector<std::string> rdma_devices_of(const std::string& interface);

std::string own_host_name();

}  // namespace sparcl::net
