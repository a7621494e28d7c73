#pragma once

#include <cstdint>

namespace sparcl {

// Where bytes live. Contracts of kernels and transports name it; host code touches kHost and
// kPinned only.
enum class MemorySpace : std::uint8_t { kHost, kPinned, kDevice };

}  // namespace sparcl
