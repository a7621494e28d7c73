#pragma once

#include <cstdint>

namespace sparcl {

// The location of bytes. Contracts of kernels and transports name it; host code accesses kHost and
// kPinned only.
enum class MemorySpace : std::uint8_t { kHost, kPinned, kDevice };

}  // namespace sparcl
