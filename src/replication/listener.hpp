#pragma once
// The port for replicas.

#include <cstdint>
#include <string>

#include "src/net/socket.hpp"

namespace sparcl::replication {

// The machines that may reach a port. Without a secret it is this one, unless the user says so.
enum class Reach : std::uint8_t { kThisMachine, kNetwork };

// A connection waits until a server accepts it.
struct Listener {
  // where: "HOST:PORT"; without a host all interfaces. "": any port of the loopback interface.
  // InvalidArgument: the address can be reached from other machines, against `reach`.
  static Result<Listener> open(const std::string& where, Reach reach);

  net::Socket socket;
  std::string address;  // for replicas on other hosts where there is an interface for them
};

// Whether other machines can reach `where`; false if its host is not known.
bool is_reachable(const std::string& where);

}  // namespace sparcl::replication
