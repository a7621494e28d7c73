#pragma once
// Files in memory alone (memfd_create(2)), which processes of one machine share.

#include <cstdint>

namespace sparcl {

// False if a file of this size would exceed the process's limit (RLIMIT_FSIZE), which raises a
// signal.
bool may_make_file_of(std::uint64_t bytes);

}  // namespace sparcl
