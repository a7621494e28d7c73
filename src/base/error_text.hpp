#pragma once

#include <string>

namespace sparcl {

// What an errno means, in English whatever the process's locale is. Safe in threads.
std::string error_text(int error);

}  // namespace sparcl
