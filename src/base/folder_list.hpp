#pragma once
// What lies in a folder, read by opendir() and readdir(): std::filesystem's directory_iterator ends
// the process where there is no memory for a name (libstdc++ 12: advance() is noexcept, and
// allocates).

#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl {

// The names in `folder`, sorted, without "." and "..". SystemError: it cannot be listed, with the
// system's reason.
Result<std::vector<std::string>> names_in_folder(const std::string& folder);

}  // namespace sparcl
