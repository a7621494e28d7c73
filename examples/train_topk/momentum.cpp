#include "momentum.hpp"

#include <cmath>

namespace training {
namespace {

constexpr float kMomentum = 0.9F;
constexpr float kSlowed = 0.5F;

}  // namespace

void clip_norm(std::span<float> gradient, float limit) {
  double squares = 0;
  for (const float value : gradient) squares += static_cast<double>(value) * value;
  const double norm = std::sqrt(squares);
  if (norm <= limit) return;
  const auto factor = static_cast<float>(limit / norm);
  for (float& value : gradient) value *= factor;
}

void Momentum::apply(std::span<float> gradient) {
  for (std::size_t i = 0; i < velocity_.size(); ++i) {
    velocity_[i] = kMomentum * velocity_[i] + gradient[i];
    gradient[i] += kMomentum * velocity_[i];
  }
}

void Momentum::slow_down(std::span<const float> sent) {
  for (std::size_t i = 0; i < velocity_.size(); ++i) {
    if (sent[i] != 0) velocity_[i] *= kSlowed;
  }
}

}  // namespace training
