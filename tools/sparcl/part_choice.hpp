#pragma once
// Which tensors of a publisher, and which slices of them, a worker holds.

#include <string>
#include <vector>

#include "src/model/schema.hpp"

namespace sparcl::tool {

struct PartChoice {
  std::vector<std::string> tensors;  // regular expressions (ECMAScript) for names; empty: all
  std::vector<std::string>
      slices;  // "REGEX:DIM:INDEX/PARTS": of PARTS equal parts along a dimension, this one

  bool is_all() const { return tensors.empty() && slices.empty(); }
};

// Empty, or why it is no choice of any model.
std::string tensors_fault(const std::string& text);
std::string slice_fault(const std::string& text);

// InvalidArgument names what is no choice, or a tensor that cannot be cut so.
Result<model::Schema> choose_parts(const model::Schema& published, const PartChoice& choice);

// A tensor for each slice: as a file has them.
model::Schema as_tensors(const model::Schema& held);

}  // namespace sparcl::tool
