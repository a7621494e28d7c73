#pragma once
// Connections inside one machine over which descriptors travel (unix(7): SOCK_SEQPACKET, SCM_RIGHTS). Their names are those of the
// network namespace: whoever cannot reach one is, for this, on another machine. They never block and close themselves (Socket).

#include <optional>
#include <span>
#include <string>

#include "src/transport/socket.hpp"

namespace sparcl {

// name: any that nobody else has; no file is made.
Result<Socket> listen_nearby(const std::string& name, int backlog);
Result<Socket> connect_nearby(const std::string& name);  // connected on return
std::optional<Socket> accept_nearby(const Socket& listener);

// One message. kWouldBlock: the other side has not taken the earlier ones. kClosed: it is gone, or will take no more descriptors.
Moved send_nearby(const Socket& socket, std::span<const std::byte> message, int descriptor);

// The next message, which is as long as `message`, and the descriptor that came with it. Nothing, or one of another length:
// kClosed, or kWouldBlock. What came beyond one descriptor is closed.
struct NearbyMessage {
  Moved moved;
  Socket descriptor;  // not open: none came
};
NearbyMessage receive_nearby(const Socket& socket, std::span<std::byte> message);

}  // namespace sparcl
