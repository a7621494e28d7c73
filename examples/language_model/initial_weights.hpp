#pragma once
// The weights that training starts from.

#include <cstdint>
#include <vector>

#include "parameter_layout.hpp"

namespace training {

// Matrices are drawn; norms begin as the identity: gains (".weight" of one dimension) 1, biases 0.
std::vector<float> initial_weights(const ParameterLayout& layout, int layers, std::uint64_t seed);

}  // namespace training
