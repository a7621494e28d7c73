#include "layer_maths.hpp"

#include <algorithm>
#include <cmath>

#include "vector_exp.hpp"

namespace training {
namespace {

constexpr float kNormEpsilon = 1e-5F;
constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

const float* row_of(ConstMatrix matrix, int row) {
  return matrix.data + static_cast<std::ptrdiff_t>(row) * matrix.stride;
}

float tanh_by_exp(float x) { return 1.0F - 2.0F / (vector_exp(2.0F * x) + 1.0F); }

float gelu_gate(float x) { return tanh_by_exp(kGeluScale * (x + kGeluCubic * x * x * x)); }

}  // namespace

void layer_norm(ConstMatrix x, const float* gain, const float* bias, Matrix y,
                NormStatistics* statistics) {
  const int width = x.cols;
  for (int i = 0; i < x.rows; ++i) {
    const float* const in = row_of(x, i);
    float* const out = y.row(i);
    double sum = 0;
    double squares = 0;
    for (int j = 0; j < width; ++j) {
      sum += in[j];
      squares += static_cast<double>(in[j]) * in[j];
    }
    const double mean = sum / width;
    const double variance = std::max(0.0, squares / width - mean * mean);
    statistics[i] = {static_cast<float>(mean),
                     static_cast<float>(1 / std::sqrt(variance + kNormEpsilon))};
    for (int j = 0; j < width; ++j)
      out[j] = (in[j] - statistics[i].mean) * statistics[i].inverse_deviation * gain[j] + bias[j];
  }
}

void layer_norm_backward(ConstMatrix x, const NormStatistics* statistics, const float* gain,
                         ConstMatrix dy, Matrix dx, float* dgain, float* dbias) {
  const int width = x.cols;
  for (int i = 0; i < x.rows; ++i) {
    const float* const in = row_of(x, i);
    const float* const grad = row_of(dy, i);
    float* const out = dx.row(i);
    const auto [mean, inverse_deviation] = statistics[i];
    double sum = 0;         // of d(normalised)
    double projection = 0;  // of d(normalised) on normalised
    for (int j = 0; j < width; ++j) {
      const float normalised = (in[j] - mean) * inverse_deviation;
      const float d = grad[j] * gain[j];
      sum += d;
      projection += static_cast<double>(d) * normalised;
      dgain[j] += grad[j] * normalised;
      dbias[j] += grad[j];
    }
    const auto mean_d = static_cast<float>(sum / width);
    const auto mean_projection = static_cast<float>(projection / width);
    for (int j = 0; j < width; ++j) {
      const float normalised = (in[j] - mean) * inverse_deviation;
      out[j] += inverse_deviation * (grad[j] * gain[j] - mean_d - normalised * mean_projection);
    }
  }
}

void gelu(std::span<const float> x, std::span<float> y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = 0.5F * x[i] * (1.0F + gelu_gate(x[i]));
}

void gelu_backward(std::span<const float> x, std::span<float> dy_to_dx) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float gate = gelu_gate(x[i]);
    const float gate_slope =
        (1.0F - gate * gate) * kGeluScale * (1.0F + 3.0F * kGeluCubic * x[i] * x[i]);
    dy_to_dx[i] *= 0.5F * (1.0F + gate) + 0.5F * x[i] * gate_slope;
  }
}

void causal_softmax(Matrix scores, int first) {
  for (int i = 0; i < scores.rows; ++i) {
    float* const row = scores.row(i);
    const int visible = first + i + 1;
    const float largest = *std::max_element(row, row + visible);
    float sum = 0;
    for (int j = 0; j < visible; ++j) row[j] = vector_exp(row[j] - largest);
    for (int j = 0; j < visible; ++j) sum += row[j];
    for (int j = 0; j < visible; ++j) row[j] /= sum;
    std::fill(row + visible, row + scores.cols, 0.0F);
  }
}

void softmax_backward(ConstMatrix probabilities, Matrix dprobabilities_to_dscores) {
  for (int i = 0; i < probabilities.rows; ++i) {
    const float* const p = row_of(probabilities, i);
    float* const d = dprobabilities_to_dscores.row(i);
    float mean = 0;
    for (int j = 0; j < probabilities.cols; ++j) mean += p[j] * d[j];
    for (int j = 0; j < probabilities.cols; ++j) d[j] = p[j] * (d[j] - mean);
  }
}

double cross_entropy(std::span<float> logits_to_gradient, Token target, float factor) {
  const float largest = *std::max_element(logits_to_gradient.begin(), logits_to_gradient.end());
  const double target_logit = static_cast<double>(logits_to_gradient[target]) - largest;
  double sum = 0;
  for (float& value : logits_to_gradient) value = vector_exp(value - largest);
  for (const float value : logits_to_gradient) sum += value;
  const auto scale = static_cast<float>(factor / sum);
  for (float& value : logits_to_gradient) value *= scale;
  logits_to_gradient[target] -= factor;
  return std::log(sum) - target_logit;
}

}  // namespace training
