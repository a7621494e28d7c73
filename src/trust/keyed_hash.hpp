#pragma once
// Proves knowledge of a secret without showing it: HMAC-SHA256, a comparison in constant time, and
// random bytes.

#include <array>
#include <cstddef>
#include <span>

#include "src/base/status.hpp"

namespace sparcl::trust {

using KeyedHash = std::array<std::byte, 32>;

// HMAC-SHA256, by libcrypto. SystemError if the library refuses: a FIPS policy, or no memory.
Result<KeyedHash> keyed_hash(std::span<const std::byte> key, std::span<const std::byte> bytes);

// The time does not depend on where two ranges of one length differ.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

// From the kernel's generator; blocks only right after the machine's start.
Status fill_random(std::span<std::byte> out);

}  // namespace sparcl::trust
