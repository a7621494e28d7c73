#pragma once
// How large the model is, by name.

#include <string>

#include "parameter_layout.hpp"

namespace training {

struct ModelSize {
  int width, layers;
};

// tiny, small, medium (30 thousand, 1 million, 5 million parameters) or WIDTHxLAYERS. Throws
// std::invalid_argument.
ModelSize parse_model_size(const std::string& text);

ModelShape shape_of(const ModelSize& size, int vocabulary);

}  // namespace training
