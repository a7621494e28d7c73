#pragma once

#include <vector>

#include "tests/mismatch/mismatch_table.hpp"

namespace sparcl::test {

std::vector<MismatchRow> aggregate_rows();

}  // namespace sparcl::test
