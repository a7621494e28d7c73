// Adam (Kingma, Ba 2015) with both corrections of the bias, as torch.optim.Adam.
#include <cmath>

#include "src/aggregate/outer/outer_optimizer.hpp"

namespace sparcl::aggregate {
namespace {

// By products, as the C library's pow() is not the same everywhere.
double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

}  // namespace

void step_adam(const OuterStep& step) {
  const OuterOptions& options = step.options;
  float* const means = step.state[0];
  float* const squares = step.state[1];
  const double mean_share = 1 - power(options.momentum, step.step);
  const double square_share = 1 - power(options.beta2, step.step);
  for (std::uint64_t i = 0; i < step.count; ++i) {
    const double gradient = step.values[i];
    means[i] = static_cast<float>(options.momentum * means[i] + (1 - options.momentum) * gradient);
    squares[i] =
        static_cast<float>(options.beta2 * squares[i] + (1 - options.beta2) * gradient * gradient);
    const double mean = means[i] / mean_share, square = squares[i] / square_share;
    step.values[i] =
        static_cast<float>(options.learning_rate * mean / (std::sqrt(square) + options.epsilon));
  }
}

}  // namespace sparcl::aggregate
