#pragma once

#include "kernels/classes.hpp"

namespace sparcl::kernels {

// Readable scalar bodies: the oracle of all others, and the body of instruction sets that move no
// bits by masks.
extern const ClassKernels kReferenceClassKernels;

}  // namespace sparcl::kernels
