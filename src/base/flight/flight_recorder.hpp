#pragma once
// The flight record of this process: a file that others may look at, or where none can be made
// plain memory, for dumps alone.

#include <cstddef>
#include <string>

#include "src/base/flight/flight_layout.hpp"
#include "src/base/status.hpp"

namespace sparcl::flight {

// Free trails are taken in order, then those of communicators destroyed longest ago. nullptr:
// SPARCL_FLIGHT=off, or all are in use. Makes the record the first time, and removes what dead
// processes left beyond a limit; installs the handler of SPARCL_FLIGHT_SIGNAL.
Trail* take_trail(const TrailHead& head);

// The record of this process, or nullptr. For handlers of signals, too.
std::byte* image() noexcept;

// The file stays when the process ends, too.
void keep_record() noexcept;

// Where it lies; empty if it is in plain memory, or not there.
std::string record_path();

// Settings that take_trail() would stumble over.
Status check_flight_settings();

}  // namespace sparcl::flight
