#pragma once
#include "kernels/sparse_sum.hpp"

namespace sparcl::kernels {

EntryKernels reference_entries();

}  // namespace sparcl::kernels
