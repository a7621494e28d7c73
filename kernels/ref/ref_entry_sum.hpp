#pragma once
#include "kernels/entry_sum.hpp"

namespace sparcl::kernels {

EntryKernels reference_entries();

}  // namespace sparcl::kernels
