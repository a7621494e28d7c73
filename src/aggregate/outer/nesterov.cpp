// Nesterov's momentum, as torch.optim.SGD(nesterov=True) and the outer optimiser of DiLoCo
// (Douillard et al., 2023): m = momentum m + g, result = learning_rate (g + momentum m).
#include "src/aggregate/outer/outer_optimizer.hpp"

namespace sparcl::aggregate {

void step_nesterov(const OuterStep& step) {
  const OuterOptions& options = step.options;
  float* const moments = step.state[0];
  for (std::uint64_t i = 0; i < step.count; ++i) {
    const double gradient = step.values[i];
    moments[i] = static_cast<float>(options.momentum * moments[i] + gradient);
    step.values[i] =
        static_cast<float>(options.learning_rate * (gradient + options.momentum * moments[i]));
  }
}

}  // namespace sparcl::aggregate
