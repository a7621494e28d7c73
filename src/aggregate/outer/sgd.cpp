// Stochastic gradient descent with momentum, as torch.optim.SGD without dampening:
// m = momentum m + g, result = learning_rate m.
#include "src/aggregate/outer/outer_optimizer.hpp"

namespace sparcl::aggregate {

void step_sgd(const OuterStep& step) {
  const OuterOptions& options = step.options;
  if (step.state.empty()) {  // without momentum
    for (std::uint64_t i = 0; i < step.count; ++i)
      step.values[i] = static_cast<float>(options.learning_rate * step.values[i]);
    return;
  }
  float* const moments = step.state[0];
  for (std::uint64_t i = 0; i < step.count; ++i) {
    moments[i] = static_cast<float>(options.momentum * moments[i] + step.values[i]);
    step.values[i] = static_cast<float>(options.learning_rate * moments[i]);
  }
}

}  // namespace sparcl::aggregate
