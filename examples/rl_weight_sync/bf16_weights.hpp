#pragma once
// The model's weights as they are published and held: bf16, one tensor a place of the layout.

#include <language_model/parameter_layout.hpp>
#include <span>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace training {

class Bf16Weights {
 public:
  explicit Bf16Weights(const ParameterLayout& layout);

  std::span<sparcl::bfloat16> values() { return values_; }
  const sparcl::State& state() const { return state_; }
  sparcl::Hash hash() const { return state_.hash(); }

 private:
  std::vector<sparcl::bfloat16> values_;
  sparcl::State state_;
};

}  // namespace training
