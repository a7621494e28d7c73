#pragma once
// The root of a unique id in a process of its own, for tests with processes.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "src/net/bootstrap/bootstrap_root.hpp"
#include "tests/support/child_process.hpp"

namespace sparcl::test {

// A root in a process of its own, which says its id through a pipe and then waits to be killed.
struct RemoteRoot {
  static void leave_only(int descriptors) {
    std::vector<net::Socket> probes;
    for (int i = 0; i < descriptors; ++i) probes.emplace_back(dup(STDERR_FILENO));
    const rlimit limit{static_cast<rlim_t>(probes.back().fd()) + 1,
                       static_cast<rlim_t>(probes.back().fd()) + 1};
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }

  // `descriptors`: how many it may open, if not 0, besides those that it has.
  explicit RemoteRoot(int descriptors = 0)
      : process([&](int out) -> std::string {
          if (descriptors != 0) leave_only(descriptors);
          const std::array<net::NetAddress, 1> here{net::loopback_address()};
          const auto root = net::BootstrapRoot::start(here, {.note_s = 0.1});
          if (!root.ok()) return root.status().message();
          const auto bytes = encode_unique_id((*root)->id());
          (void)!write(out, bytes.data(), bytes.size());
          pause();
          return "";
        }) {
    const std::string text = process.text(net::kUniqueIdBytes);
    std::array<std::byte, net::kUniqueIdBytes> bytes{};
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(bytes.data()));
    const Result<net::UniqueId> decoded = net::decode_unique_id(bytes);
    EXPECT_TRUE(decoded.ok()) << text;
    if (decoded.ok()) id = *decoded;
  }

  ChildProcess process;
  net::UniqueId id;
};

}  // namespace sparcl::test
