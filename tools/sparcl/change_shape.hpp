#pragma once

#include "kernels/kernel_set.hpp"
#include "src/model/checkpoint.hpp"
#include "tools/sparcl/advisor.hpp"

namespace sparcl::tool {

// One pass over two checkpoints of one schema; of very large ones over evenly spread pieces.
ChangeShape measure_shape(const model::Checkpoint& base, const model::Checkpoint& target, const kernels::KernelSet& kernels);

// -p log2 p - (1 - p) log2 (1 - p)
double binary_entropy(double p);

}  // namespace sparcl::tool
