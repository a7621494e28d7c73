#pragma once
// Where replicas knock.

#include <string>

#include "src/net/socket.hpp"

namespace sparcl::replication {

// Those who connect wait until somebody takes them.
struct Listener {
  // where: "HOST:PORT"; without a host all interfaces, "": and any port.
  static Result<Listener> open(const std::string& where);

  net::Socket socket;
  std::string address;  // for replicas on other hosts where there is an interface for them
};

}  // namespace sparcl::replication
