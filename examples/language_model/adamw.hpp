#pragma once
// AdamW (Loshchilov and Hutter 2019): decoupled weight decay, bias-corrected moments, all in fp32.

#include <cstddef>
#include <span>
#include <vector>

namespace training {

struct AdamwSettings {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0;
};

class Adamw {
 public:
  Adamw(std::size_t count, const AdamwSettings& settings)
      : settings_(settings), mean_(count), square_(count) {}

  void step(std::span<float> weights, std::span<const float> gradients, float rate);

 private:
  AdamwSettings settings_;
  std::vector<float> mean_, square_;
  double power1_ = 1, power2_ = 1;  // beta^steps
};

// Linear warm-up to `peak`, then linear decay to the share `last` of it, which would come after the
// last step. step counts from 0.
float scheduled_rate(float peak, int step, int warmup_steps, int all_steps, float last = 0.1F);

}  // namespace training
