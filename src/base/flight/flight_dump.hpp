#pragma once
// The flight record as text: into the log when a communicator is poisoned, to a descriptor when a signal asks for it.

#include <cstddef>

#include "src/base/flight/comm_trail.hpp"
#include "src/base/flight/flight_layout.hpp"

namespace sparcl::flight {

inline constexpr std::size_t kLoggedRecords = 16;

// The last operations of one communicator, at level error.
void log_trail(const CommTrail& trail);

// All communicators of `image`, or of this process. Async-signal-safe; where another thread is at it, that one's dump has to do.
void dump(int descriptor, std::byte* image) noexcept;
void dump(int descriptor) noexcept;

}  // namespace sparcl::flight
