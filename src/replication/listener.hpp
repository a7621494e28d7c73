#pragma once
// The port for replicas.

#include <string>

#include "src/net/socket.hpp"

namespace sparcl::replication {

// A connection waits until a server accepts it.
struct Listener {
  // where: "HOST:PORT"; without a host all interfaces, "": and any port.
  static Result<Listener> open(const std::string& where);

  net::Socket socket;
  std::string address;  // for replicas on other hosts where there is an interface for them
};

}  // namespace sparcl::replication
