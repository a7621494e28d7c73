#pragma once
// The rows of sparclAllReduceSparse.

#include <vector>

#include "tests/mismatch/mismatch_table.hpp"

namespace sparcl::test {

std::vector<MismatchRow> sparse_sum_rows();

}  // namespace sparcl::test
