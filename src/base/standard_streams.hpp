#pragma once
// Descriptors 0 to 2, as programs and the log use them.

#include <string_view>

namespace sparcl {

// For programs, before they open anything. If descriptors 0, 1 or 2 are closed, they are opened on
// /dev/null, so that no file and no socket gets their number. SIGPIPE is ignored from now on: a
// closed reader is an error of the write.
void prepare_standard_streams();

// Writes all of `text`, or as much as possible: false, with errno. Raises no SIGPIPE, throws
// nothing; signal handlers may call it. patience_ms: the longest wait for room in a non-blocking
// descriptor; -1: no limit.
bool write_quietly(int descriptor, std::string_view text, int patience_ms = -1) noexcept;

}  // namespace sparcl
