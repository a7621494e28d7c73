#pragma once
// Which of this machine's addresses others may reach us at: the setting INTERFACE.

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

// Of all interfaces that are up and running, in the kernel's order.
Result<std::vector<InterfaceAddress>> list_interfaces();

// What `wanted` allows of `present`, the best first.
//   "auto"      all that are not loopback, bridges of containers and virtual machines last;
//               loopback if there is nothing else
//   "eth,ib0"   those whose names begin so, in this order; "lo" is a name like others
//   "^docker"   all but those whose names begin so, and loopback
// IPv6 addresses of one link alone are left out: they mean nothing without the name of an
// interface, which differs from host to host. InvalidArgument, with the names that there are, if
// nothing is left.
Result<std::vector<NetAddress>> choose_addresses(std::string_view wanted,
                                                 std::span<const InterfaceAddress> present);

// Both, with the setting in force.
Result<std::vector<NetAddress>> own_addresses();

// The names of the interfaces that the setting in force allows, the best first; empty: it is
// "auto", which allows all.
Result<std::vector<std::string>> chosen_interfaces();

// The RDMA devices behind an interface, with their port: "mlx5_0:1". From /sys/class/net.
std::vector<std::string> rdma_devices_of(const std::string& interface);

std::string own_host_name();

}  // namespace sparcl::net
