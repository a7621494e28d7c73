#pragma once

#include "kernels/accumulate.hpp"

namespace sparcl::kernels {

// Readable scalar bodies: the oracle of all others, and the body of the floats of 8 bits.
AccumulateTable reference_accumulates();

}  // namespace sparcl::kernels
