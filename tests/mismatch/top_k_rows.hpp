#pragma once
// The rows of sparclAllReduceTopK: its options and its feedback, and its other arguments.

#include <vector>

#include "tests/mismatch/mismatch_table.hpp"

namespace sparcl::test {

std::vector<MismatchRow> top_k_rows();

}  // namespace sparcl::test
