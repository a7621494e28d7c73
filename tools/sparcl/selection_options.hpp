#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::tool {

// The options of `sparcl diff` that choose changes, and the precision in which they are sent.
struct SelectionOptions {
  std::optional<double> threshold;
  std::optional<std::uint64_t> largest;
  std::optional<std::uint64_t> budget_bytes;
  std::string grid;  // a safetensors type; empty: none
  std::vector<std::string> only;
  int values = sparclValuesExact;
  int rounding = sparclRoundNearest;
  std::uint64_t seed = 0;

  // All options but `only`, in the library's form.
  sparclUpdateOptions_t as_update_options() const;
};

void add_selection_options(CLI::App& app, SelectionOptions& selection);

}  // namespace sparcl::tool
