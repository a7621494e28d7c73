#pragma once
// Files that live in memory alone (memfd_create(2)), for what processes of one machine share.

#include <cstdint>

namespace sparcl {

// A file larger than the process may make (RLIMIT_FSIZE) would end it by a signal.
bool may_make_file_of(std::uint64_t bytes);

}  // namespace sparcl
