#pragma once

#include "kernels/kernel_set.hpp"
#include "tools/sparcl/advisor.hpp"
#include "tools/sparcl/held_state.hpp"

namespace sparcl::tool {

// One pass over two states of one schema; of very large ones over evenly spread pieces. The
// sources' status() is the caller's to ask.
ChangeShape measure_shape(const StateView& base, const StateView& target,
                          const kernels::KernelSet& kernels);

// -p log2 p - (1 - p) log2 (1 - p)
double binary_entropy(double p);

}  // namespace sparcl::tool
