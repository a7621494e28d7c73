#pragma once
// The operations of a transformer that are not matrix products, each forward and backward.
// Gradients are added to the output, except dx of gelu_backward and softmax_backward, which
// replaces it.

#include <cstdint>
#include <span>

#include "matmul.hpp"

namespace training {

using Token = std::uint8_t;

struct NormStatistics {
  float mean, inverse_deviation;
};

// y = (x - mean) / deviation * gain + bias, row by row.
void layer_norm(ConstMatrix x, const float* gain, const float* bias, Matrix y,
                NormStatistics* statistics);
void layer_norm_backward(ConstMatrix x, const NormStatistics* statistics, const float* gain,
                         ConstMatrix dy, Matrix dx, float* dgain, float* dbias);

// The tanh form of GELU.
void gelu(std::span<const float> x, std::span<float> y);
void gelu_backward(std::span<const float> x, std::span<float> dy_to_dx);

// Row i of `scores` belongs to position first + i, and sees positions 0 .. first + i: the others
// become exactly 0.
void causal_softmax(Matrix scores, int first);
void softmax_backward(ConstMatrix probabilities, Matrix dprobabilities_to_dscores);

// -log p(target) of one row of logits, which becomes factor * d(-log p(target)) / d logits.
double cross_entropy(std::span<float> logits_to_gradient, Token target, float factor);

}  // namespace training
