#pragma once
// Identifies a rank's process and machine, so that another process of the machine can watch it
// through the kernel.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/bytes.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {

struct ProcessIdentity {
  std::string host;
  std::uint32_t pid = 0;
  std::uint64_t start =
      0;  // start time in the kernel's ticks: a pid may be given again; 0: not known
  std::array<std::byte, 16> boot{};  // of the machine's run; zeros: not known
  std::uint64_t pid_namespace = 0;   // pids mean the same inside one only; 0: not known
  std::uint64_t net_namespace = 0;   // so does 127.0.0.1

  void write(ByteWriter& out) const;
  [[nodiscard]] bool read(ByteReader& in);
  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity own_identity();

bool shares_loopback(const ProcessIdentity& a, const ProcessIdentity& b);

// kWatched: `descriptor` becomes readable when the process ends. kGone: it has ended. kUnknown: the
// kernel cannot say, because of another machine or namespace, an old kernel, or the own process.
enum class ProcessWatch { kUnknown, kWatched, kGone };
ProcessWatch watch_process(const ProcessIdentity& own, const ProcessIdentity& other,
                           Socket& descriptor);

}  // namespace sparcl::net
