#pragma once
// Tickets, by which a replica and its parent prove to each other that the publisher placed them so.
// The publisher gives each parent a random key (WELCOME). It gives each child a ticket (PARENT): a
// number, and a key. The parent derives that key from its own key and the number. It is the
// pre-shared key of their TLS connection. The publisher, the parent and the child alone know it.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>

#include "src/base/status.hpp"
#include "src/net/tls_endpoint.hpp"

namespace sparcl::replication {

using RelayKey = std::array<std::byte, 32>;

struct RelayTicket {
  std::array<std::byte, 16> nonce{};
  std::array<std::byte, 32> key{};
};

Result<RelayKey> new_relay_key();
Result<RelayTicket> new_ticket(const RelayKey& parent);

Result<net::TlsEndpointRef> ticket_client(const RelayTicket& ticket);
// Accepts the tickets of the key that the parent has at that time. Each is for one connection,
// which may be tried again for some seconds.
Result<net::TlsEndpointRef> ticket_server(std::shared_ptr<const std::optional<RelayKey>> own);

}  // namespace sparcl::replication
