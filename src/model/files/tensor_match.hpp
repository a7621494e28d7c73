#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/model/schema.hpp"

namespace sparcl::model {

constexpr std::size_t kNoBase = static_cast<std::size_t>(-1);

// For each tensor of `target`, the tensor of `base` that it is coded against, or kNoBase. It has
// the same name, type and element count; the shape may differ. diff and apply call the same
// function, so that both get the same answer.
std::vector<std::size_t> match_tensors(const Schema& base, const Schema& target);

// The tensors without a match, by name, each in the order of its schema.
struct TensorChanges {
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::vector<std::string> replaced;  // same name, but another type or element count
};
TensorChanges tensor_changes(const Schema& base, const Schema& target);

}  // namespace sparcl::model
