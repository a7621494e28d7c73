#include "src/transport/ucx/ucx_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "src/base/log.hpp"
#include "src/net/network_interfaces.hpp"
#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx_needs.hpp"

namespace sparcl::transport {
namespace {

// The largest TCP receive buffer that a process may request from the kernel; 0 if that is unknown.
// Also 0 if a buffer that Linux grows may become far larger, because a request stops its growth.
std::size_t largest_receive_buffer() {
  constexpr std::size_t kFarLarger = 8;  // heuristic
  std::size_t asked = 0, least = 0, first = 0, grown = 0;
  std::ifstream("/proc/sys/net/core/rmem_max") >> asked;
  std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> first >> grown;
  return grown / kFarLarger > asked ? 0 : asked;
}

// Over TCP, large messages to peers with failure detection are sent in segments. They are copied
// once more than UCX 1.13's put to other peers (bench/transport/run):
// - Segments of 64 KiB, UCX's own, gave 0.55 to 0.7 of the bandwidth of the better peer, these 0.65
//   to 1. Neither larger segments nor messages in pieces gave more.
// - If the receiver is the slower side, a receive buffer that Linux grows overflows under bbr: 0.6
//   of the bandwidth to 8 MiB. The buffer given here does not grow, and is requested only if it is
//   large from the start.
void prefer_bandwidth_over_tcp(ucp_config_t* config) {
  constexpr std::size_t kLargeBuffer = 4 << 20, kLargestBuffer = 16 << 20;
  // UCX warns of settings for lanes that it does not open.
  if (!ucx_may_use({"all", "tcp"}) || std::getenv("UCX_NET_DEVICES") != nullptr) return;
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  const std::string prefix =
      std::pair(major, minor) >= std::pair(1U, 17U) ? "TCP_" : "";  // the prefix of their names
  const auto modify = [&](const char* name, const std::string& value) {
    (void)ucp_config_modify(config, (prefix + name).c_str(), value.c_str());
  };
  // One size must not be smaller than the other.
  if (std::getenv("UCX_TCP_TX_SEG_SIZE") == nullptr &&
      std::getenv("UCX_TCP_RX_SEG_SIZE") == nullptr) {
    modify("TX_SEG_SIZE", "256k");
    modify("RX_SEG_SIZE", "256k");
  }
  const std::size_t buffer = std::min(largest_receive_buffer(), kLargestBuffer);
  if (std::getenv("UCX_TCP_RCVBUF") == nullptr && buffer >= kLargeBuffer)
    modify("RCVBUF", std::to_string(buffer));
}

// SPARCL_INTERFACE applies to the ranks' data, too: their TCP sockets, and the RDMA devices of
// these interfaces.
Status choose_net_devices(ucp_config_t* config) {
  if (std::getenv("UCX_NET_DEVICES") != nullptr) return {};
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, net::chosen_interfaces());
  if (names.empty()) return {};
  std::vector<std::string> devices = names;
  for (const std::string& name : names) {
    for (std::string& device : net::rdma_devices_of(name)) devices.push_back(std::move(device));
  }
  const std::string list = fmt::format("{}", fmt::join(devices, ","));
  log_debug("UCX's network devices, by SPARCL_INTERFACE: {}", list);
  return ucx_status(ucp_config_modify(config, "NET_DEVICES", list.c_str()),
                    "UCX_NET_DEVICES=" + list);
}

}  // namespace

Status adapt_ucx_settings(ucp_config_t* config) {
  prefer_bandwidth_over_tcp(config);
  return choose_net_devices(config);
}

}  // namespace sparcl::transport
