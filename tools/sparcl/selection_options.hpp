#pragma once

#include <CLI/CLI.hpp>

#include "src/model/files/change_selection.hpp"

namespace sparcl::tool {

// The options of `sparcl diff` that choose changes, and how exactly they travel.
void add_selection_options(CLI::App& app, model::ChangeSelection& selection);

}  // namespace sparcl::tool
