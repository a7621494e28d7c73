#include "src/aggregate/outer/outer_optimizer.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace sparcl::aggregate {
namespace {

void leave_as_it_is(const OuterStep&) {}

constexpr OuterRow kRows[] = {
    {OuterKind::kNone, "none", 0, leave_as_it_is},
    {OuterKind::kSgd, "sgd", 1, step_sgd},
    {OuterKind::kNesterov, "nesterov", 1, step_nesterov},
    {OuterKind::kDelayedNesterov, "delayed_nesterov", 2, step_delayed_nesterov},
    {OuterKind::kAdam, "adam", 2, step_adam}};

}  // namespace

std::span<const OuterRow> outer_table() { return kRows; }

const OuterRow& outer_row(OuterKind kind) {
  for (const OuterRow& row : kRows) {
    if (row.kind == kind) return row;
  }
  return kRows[0];
}

std::size_t outer_moments(const OuterOptions& options) {
  if (options.kind == OuterKind::kSgd && options.momentum == 0) return 0;
  return outer_row(options.kind).moments;
}

Status check_outer_options(const OuterOptions& options) {
  const auto refuse = [](const char* name, double value, const char* range) {
    return Status(Code::kInvalidArgument, fmt::format("{} is {}: {}", name, value, range));
  };
  if (static_cast<std::size_t>(options.kind) >= std::size(kRows))
    return refuse("optimizer", static_cast<double>(options.kind), "it is none of the enum's");
  if (!std::isfinite(options.learning_rate))
    return refuse("learning_rate", options.learning_rate, "give a finite number");
  if (!(options.momentum >= 0 && options.momentum < 1))
    return refuse("momentum", options.momentum, "give 0 or more, and less than 1");
  if (!(options.beta2 >= 0 && options.beta2 < 1))
    return refuse("beta2", options.beta2, "give 0 or more, and less than 1");
  if (!(options.epsilon > 0 && std::isfinite(options.epsilon)))
    return refuse("epsilon", options.epsilon, "give a positive number");
  if (options.delay == 0) return refuse("delay", 0, "give at least 1 round");
  if (!(options.activation >= 0 && options.activation * options.delay <= 1))
    return refuse("activation", options.activation, "give 0 to 1 / delay");
  return {};
}

}  // namespace sparcl::aggregate
