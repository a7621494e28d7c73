#pragma once
// Network namespaces that bench/hosts/hosts joins by cables, which can be cut; of this process
// alone, and gone with it.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace sparcl::test {

class VirtualHosts {
 public:
  // rate: "1gbit", or "none".
  explicit VirtualHosts(int count, const std::string& rate = "none")
      : are_up_(run(fmt::format("up {} {}", count, rate))) {}
  ~VirtualHosts() {
    if (are_up_) (void)run("down");
  }
  VirtualHosts(const VirtualHosts&) = delete;
  VirtualHosts& operator=(const VirtualHosts&) = delete;

  bool are_up() const { return are_up_; }  // else the reason is on standard error
  // From 0. Its namespace, its address, and what a command on it begins with.
  static std::string name(int host) { return fmt::format("{}h{}", prefix(), host + 1); }
  static std::string address(int host) { return fmt::format("10.77.0.{}", host + 1); }
  static std::vector<std::string> on(int host) { return {"/sbin/ip", "netns", "exec", name(host)}; }

  static bool cut(int host) { return run(fmt::format("cut h{}", host + 1)); }
  static bool mend(int host) { return run(fmt::format("mend h{}", host + 1)); }

 private:
  static std::string prefix() { return fmt::format("sparcl{}-", ::getpid()); }
  static bool run(const std::string& command) {
    return std::system(
               fmt::format("HOSTS_PREFIX={} " SPARCL_TEST_HOSTS " {} >&2", prefix(), command)
                   .c_str()) == 0;
  }

  bool are_up_;
};

}  // namespace sparcl::test
