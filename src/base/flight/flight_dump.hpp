#pragma once
// The flight record as text: into the log when a communicator is poisoned (level info), to a
// descriptor when a signal asks for it.

#include <cstddef>
#include <string>

#include "src/base/flight/comm_trail.hpp"
#include "src/base/flight/flight_layout.hpp"

namespace sparcl::flight {

inline constexpr std::size_t kLoggedRecords = 16;

// For the message of an error that poisons: " (its last operations: `sparcl status 4711` on h1)";
// empty if there is no file.
std::string where_to_look(const CommTrail& trail);

// The last operations of one communicator, at level info.
void log_trail(const CommTrail& trail);

// Dumps all communicators of `image`, or of this process. Async-signal-safe. If another thread is
// dumping, this call does nothing.
void dump(int descriptor, std::byte* image) noexcept;
void dump(int descriptor) noexcept;

}  // namespace sparcl::flight
