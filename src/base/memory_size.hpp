#pragma once
// How much memory there is, in bytes.

#include <cstdint>
#include <string>

namespace sparcl {

std::uint64_t physical_memory();

// What can be taken now, as the system estimates it, and within the limits of this process' control
// groups (Linux, cgroup v2). UINT64_MAX: it is not known.
enum class Paging : std::uint8_t { kNone, kToSwap };
std::uint64_t available_memory(Paging paging = Paging::kNone);

// The same with these files in the places of /proc and of /sys/fs/cgroup.
std::uint64_t available_memory(Paging paging, const std::string& proc, const std::string& groups);

}  // namespace sparcl
