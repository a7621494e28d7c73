#pragma once
// SGD with momentum (Nesterov), and what Deep Gradient Compression (Lin et al., ICLR 2018) changes of it where gradients are sent
// late.

#include <cstddef>
#include <span>
#include <vector>

namespace training {

// Scales the gradient down to a norm of at most `limit`.
void clip_norm(std::span<float> gradient, float limit);

class Momentum {
 public:
  explicit Momentum(std::size_t count) : velocity_(count) {}

  // velocity = 0.9 velocity + gradient, of which 0.9 is added to the gradient.
  void apply(std::span<float> gradient);

  // Elements that have been sent begin anew ("momentum factor masking"): their old direction is stale.
  void restart(std::span<const float> sent);

 private:
  std::vector<float> velocity_;
};

}  // namespace training
