#pragma once
// Descriptors 0 to 2, as programs and the log use them.

#include <string_view>

namespace sparcl {

// For programs, before they open anything: those of descriptors 0, 1 and 2 that are closed are
// opened on /dev/null, so that no file and no socket gets their number. SIGPIPE is ignored from
// here on: a reader that has gone is an error of the write.
void prepare_standard_streams();

// All of `text`, or as much as can be written: false, and errno says why. Raises no SIGPIPE, throws
// nothing; signal handlers may call it. patience_ms: the longest wait for room of a descriptor that
// does not block; -1: no limit.
bool write_quietly(int descriptor, std::string_view text, int patience_ms = -1) noexcept;

}  // namespace sparcl
