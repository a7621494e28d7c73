#pragma once

#include <string>

namespace sparcl {

// The meaning of an errno, in English in every locale of the process. Thread-safe.
std::string error_text(int error);

}  // namespace sparcl
