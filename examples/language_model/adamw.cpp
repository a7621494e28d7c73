#include "adamw.hpp"

#include <algorithm>
#include <cmath>

namespace training {

void Adamw::step(std::span<float> weights, std::span<const float> gradients, float rate) {
  const auto [beta1, beta2, epsilon, weight_decay] = settings_;
  power1_ *= beta1;
  power2_ *= beta2;
  const auto correction1 = static_cast<float>(1 / (1 - power1_));
  const auto correction2 = static_cast<float>(1 / (1 - power2_));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    mean_[i] = beta1 * mean_[i] + (1 - beta1) * gradients[i];
    square_[i] = beta2 * square_[i] + (1 - beta2) * gradients[i] * gradients[i];
    const float direction =
        mean_[i] * correction1 / (std::sqrt(square_[i] * correction2) + epsilon);
    weights[i] -= rate * (direction + weight_decay * weights[i]);
  }
}

float scheduled_rate(float peak, int step, int warmup_steps, int all_steps, float last) {
  const float warm =
      std::min(1.0F, static_cast<float>(step + 1) / static_cast<float>(std::max(1, warmup_steps)));
  return peak * warm *
         (1 - (1 - last) * static_cast<float>(step) / static_cast<float>(std::max(1, all_steps)));
}

}  // namespace training
