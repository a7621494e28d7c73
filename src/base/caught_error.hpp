#pragma once
// An exception as a Status, for the handlers at the borders of layers and threads.

#include "src/base/status.hpp"

namespace sparcl {

// The exception that is being handled. what: the failed action, a literal ("a message could not be
// sent"). Never throws: if there is no memory for a longer text, the text is that of no_memory().
Status caught_error(const char* what, Scope scope = Scope::kCall) noexcept;

// A Status with this text, or no_memory() if there is no memory for it.
Status status_or_no_memory(Code code, const char* text, Scope scope = Scope::kCall) noexcept;

}  // namespace sparcl
