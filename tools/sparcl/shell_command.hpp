#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::tool {

// Runs `command` by /bin/sh, with these variables in its environment, and waits for its end; an
// error if its status is not 0. Its output goes to standard error, because standard output is this
// program's. A stop request is passed on to it as SIGTERM.
Status run_shell(const std::string& command,
                 const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace sparcl::tool
