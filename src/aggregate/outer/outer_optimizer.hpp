#pragma once
// Outer optimisers make a round's mean what is added to the weights. Gradients here are updates,
// new weights - old weights: results have their sign. State is float32, a value for each element
// and moment; arithmetic is in double, rounded once a value.

#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.hpp"

namespace sparcl::aggregate {

enum class OuterKind : std::uint8_t { kNone, kSgd, kNesterov, kDelayedNesterov, kAdam };

struct OuterOptions {
  OuterKind kind = OuterKind::kNone;
  double learning_rate = 1;
  double momentum = 0;      // Adam: beta1
  double beta2 = 0.999;     // of Adam
  double epsilon = 1e-8;    // of Adam
  std::uint32_t delay = 1;  // rounds between two uses of the momentum; of delayed Nesterov
  double activation = 0;    // of the momentum in the rounds between, at most 1 / delay
};

struct OuterStep {
  const OuterOptions& options;
  std::uint64_t step;             // of this optimiser, from 1 on
  std::span<float* const> state;  // `count` values of each moment; zeros before the first step
  float* values;                  // in: the mean; out: what is added to the weights
  std::uint64_t count;
};

struct OuterRow {
  OuterKind kind;
  const char* name;
  std::size_t moments;
  void (*run)(const OuterStep& step);
};

std::span<const OuterRow> outer_table();
const OuterRow& outer_row(OuterKind kind);

// The moments that an optimiser keeps: SGD without momentum keeps none.
std::size_t outer_moments(const OuterOptions& options);

// InvalidArgument names the option.
Status check_outer_options(const OuterOptions& options);

// The rows, each in the file of its name.
void step_sgd(const OuterStep& step);
void step_nesterov(const OuterStep& step);
void step_delayed_nesterov(const OuterStep& step);
void step_adam(const OuterStep& step);

}  // namespace sparcl::aggregate
