#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/model/schema.hpp"

namespace sparcl::model {

constexpr std::size_t kNoBase = static_cast<std::size_t>(-1);

// For each tensor of `target`, the tensor of `base` that it is coded against: the one with its
// name, type and element count (a new shape is no new tensor), or kNoBase. diff and apply ask the
// same question, so that both find the same answer.
std::vector<std::size_t> match_tensors(const Schema& base, const Schema& target);

// What match_tensors() leaves over, by name, each in the order of its schema.
struct TensorChanges {
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::vector<std::string> replaced;  // another type or element count under the same name
};
TensorChanges tensor_changes(const Schema& base, const Schema& target);

}  // namespace sparcl::model
