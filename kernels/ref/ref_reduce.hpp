#pragma once

#include "kernels/reduce.hpp"

namespace sparcl::kernels {

// Readable scalar bodies: the oracle of all others, and the body of the floats of 8 bits.
ReduceTable reference_reduces();

}  // namespace sparcl::kernels
