#pragma once
// The flight record of this process: a file that other processes may read. If no file can be made,
// it is plain memory, for dumps alone.

#include <cstddef>
#include <string>

#include "src/base/flight/flight_layout.hpp"
#include "src/base/status.hpp"

namespace sparcl::flight {

// Takes free trails in order, then those of communicators destroyed longest ago. nullptr:
// SPARCL_FLIGHT=off, or all are in use. The first call makes the record, removes records of dead
// processes beyond a limit, and installs the handler of SPARCL_FLIGHT_SIGNAL.
Trail* take_trail(const TrailHead& head);

// The record of this process, or nullptr. For signal handlers, too.
std::byte* image() noexcept;

// The file stays after the process has ended.
void keep_record() noexcept;

// The path of the file; empty if the record is in plain memory, or does not exist.
std::string record_path();

// Checks the settings that take_trail() reads.
Status check_flight_settings();

}  // namespace sparcl::flight
