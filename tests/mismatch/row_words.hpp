#pragma once
// Words of the rows.

#include "tests/mismatch/mismatch_table.hpp"

namespace sparcl::test {

constexpr auto kNo = sparclMismatch;
constexpr auto kBad = sparclInvalidArgument;

constexpr auto kDelta = Operation::kDelta;
constexpr auto kUpdate = Operation::kUpdate;
constexpr auto kSparse = Operation::kSparse;
constexpr auto kMasked = Operation::kMasked;

}  // namespace sparcl::test
