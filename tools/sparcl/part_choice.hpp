#pragma once
// A worker's choice of a publisher's tensors and slices.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "src/model/schema.hpp"

namespace sparcl::tool {

struct PartChoice {
  std::vector<std::string> tensors;  // regular expressions (ECMAScript) for names; empty: all
  std::vector<std::string>
      slices;  // "REGEX:DIM:INDEX/PARTS": slice INDEX of PARTS equal parts along a dimension

  bool is_all() const { return tensors.empty() && slices.empty(); }
};

// --tensors and --slice.
void add_part_options(CLI::App& app, PartChoice& parts);

// InvalidArgument names an invalid choice, or a tensor that cannot be cut so.
Result<model::Schema> choose_parts(const model::Schema& published, const PartChoice& choice);

// A tensor for each slice, as in a file.
model::Schema as_tensors(const model::Schema& held);

}  // namespace sparcl::tool
