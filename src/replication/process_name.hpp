#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "src/transport/network_interfaces.hpp"

namespace sparcl::replication {

// As peers and users know this process: "host h1, pid 4711".
inline std::string process_name() { return fmt::format("host {}, pid {}", own_host_name(), ::getpid()); }

}  // namespace sparcl::replication
