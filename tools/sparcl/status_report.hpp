#pragma once
// The flight record of a process as text for people and as JSON.

#include <cstdint>
#include <string>

#include "src/base/flight/flight_reader.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

std::string process_text(const flight::Snapshot& snapshot, std::uint64_t now_ns);
Json process_json(const flight::Snapshot& snapshot, std::uint64_t now_ns);

// One line, and one object, of a list of processes.
std::string process_line(const flight::Snapshot& snapshot, std::uint64_t now_ns);
Json process_summary(const flight::Snapshot& snapshot, std::uint64_t now_ns);

}  // namespace sparcl::tool
