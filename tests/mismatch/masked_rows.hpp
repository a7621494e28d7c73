#pragma once
// The rows of sparclAllReduceMasked: its mask, and its other arguments.

#include <vector>

#include "tests/mismatch/mismatch_table.hpp"

namespace sparcl::test {

std::vector<MismatchRow> masked_rows();

}  // namespace sparcl::test
