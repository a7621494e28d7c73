#pragma once

#include <cstddef>
#include <vector>

#include "src/model/schema.hpp"

namespace sparcl::tool {

constexpr std::size_t kNoBase = static_cast<std::size_t>(-1);

// For each tensor of `target`, the tensor of `base` that it is coded against: the one with its name, type and element count (a new
// shape is no new tensor), or kNoBase. diff and apply ask the same question, so that both find the same answer.
std::vector<std::size_t> match_tensors(const model::Schema& base, const model::Schema& target);

}  // namespace sparcl::tool
