#pragma once
// The 128 bytes by which ranks without MPI find each other. They hold the addresses of the process
// that made them, and a secret that authenticates ranks. docs/reference/bootstrap.md has the
// layout.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/net_address.hpp"

namespace sparcl::net {

constexpr std::size_t kUniqueIdBytes = 128;
constexpr std::size_t kSecretBytes = 16;
using Secret = std::array<std::byte, kSecretBytes>;

struct UniqueId {
  Secret secret{};
  std::uint16_t port = 0;             // the same at all addresses
  std::vector<NetAddress> addresses;  // the best first; each with the port
  friend bool operator==(const UniqueId&, const UniqueId&) = default;
};

// The number of addresses that fit, from the first on.
std::size_t addresses_that_fit(std::span<const NetAddress> addresses);

// The addresses must fit; their ports are ignored.
std::array<std::byte, kUniqueIdBytes> encode_unique_id(const UniqueId& id);

// The bytes are not trusted: a user may pass zeros, a string, or an id cut at its first zero.
// InvalidArgument says what to do.
Result<UniqueId> decode_unique_id(std::span<const std::byte, kUniqueIdBytes> bytes);

}  // namespace sparcl::net
