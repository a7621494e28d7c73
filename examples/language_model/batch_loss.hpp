#pragma once
// The loss of a batch, and its gradient.

#include <span>

#include "char_text.hpp"
#include "transformer.hpp"

namespace training {

// Mean cross entropy of a batch under weights. With gradients: added to.
double loss_of(Transformer& model, std::span<const float> weights, const Batch& batch,
               std::span<float> gradients = {});

}  // namespace training
