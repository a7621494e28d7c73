// Delayed Nesterov (Liu et al., Asynchronous Local-SGD Training for Language Modeling, 2024,
// algorithm 3), with N = delay, c = activation, b = momentum. D sums the gradients of N rounds.
// - every N-th round: m = b m + D / N, result = learning_rate ((1 - c N + c) b m + g / N), D = 0
// - other rounds: result = learning_rate (c b m + g / N)
#include "src/aggregate/outer/outer_optimizer.hpp"

namespace sparcl::aggregate {

void step_delayed_nesterov(const OuterStep& step) {
  const OuterOptions& options = step.options;
  float* const moments = step.state[0];
  float* const sums = step.state[1];
  const double rounds = options.delay, c = options.activation;
  const bool is_due = step.step % options.delay == 0;
  const double share = (is_due ? 1 - c * rounds + c : c) * options.momentum;
  for (std::uint64_t i = 0; i < step.count; ++i) {
    const double gradient = step.values[i];
    sums[i] = static_cast<float>(sums[i] + gradient);
    if (is_due) {
      moments[i] = static_cast<float>(options.momentum * moments[i] + sums[i] / rounds);
      sums[i] = 0;
    }
    step.values[i] =
        static_cast<float>(options.learning_rate * (share * moments[i] + gradient / rounds));
  }
}

}  // namespace sparcl::aggregate
