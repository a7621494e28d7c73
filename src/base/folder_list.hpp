#pragma once
// Lists a folder by opendir() and readdir(). std::filesystem's directory_iterator ends the process
// if there is no memory for a name (libstdc++ 12: advance() is noexcept, and allocates).

#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl {

// The names in `folder`, sorted, without "." and "..". SystemError with the system's reason if the
// folder cannot be listed.
Result<std::vector<std::string>> names_in_folder(const std::string& folder);

}  // namespace sparcl
