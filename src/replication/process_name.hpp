#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "src/transport/network_interfaces.hpp"

namespace sparcl::replication {

// As peers and users know this process: "host h1, pid 4711".
inline std::string process_name() { return fmt::format("host {}, pid {}", own_host_name(), ::getpid()); }

// One of its replicas: the first is "host h1, pid 4711", the next "host h1, pid 4711, replica 2".
inline std::string replica_name() {
  static std::atomic<int> count = 0;
  const int number = ++count;
  return number == 1 ? process_name() : fmt::format("{}, replica {}", process_name(), number);
}

}  // namespace sparcl::replication
