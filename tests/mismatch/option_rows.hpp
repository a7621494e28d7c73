#pragma once
// The rows of options of one call, but for those of top-k.

#include <vector>

#include "tests/mismatch/mismatch_table.hpp"

namespace sparcl::test {

std::vector<MismatchRow> call_option_rows();

}  // namespace sparcl::test
