#pragma once
// How much memory there is, in bytes.

#include <cstdint>
#include <string>

namespace sparcl {

std::uint64_t physical_memory();

// What can be taken now without paging, as the system estimates it, and within the limits of this
// process' control groups (Linux, cgroup v2). UINT64_MAX: it is not known.
std::uint64_t available_memory();

// The same with these files in the places of /proc and of /sys/fs/cgroup.
std::uint64_t available_memory(const std::string& proc, const std::string& groups);

}  // namespace sparcl
