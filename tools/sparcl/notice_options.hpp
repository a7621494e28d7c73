#pragma once
// The options of `sparcl subscribe` for engines that are told of versions.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/sparcl/engine_notice.hpp"

namespace sparcl::tool {

// targets: as the user writes them.
void add_notices(CLI::App& app, std::vector<std::string>& targets, NoticeOptions& notice);

}  // namespace sparcl::tool
