#pragma once
// Carries out the tables on every rank of a meeting. Each rank judges by itself: it knows what all
// must return and hold.

#include <string>
#include <vector>

#include "tests/support/meeting.hpp"

namespace sparcl::test {

struct MismatchOutcome {
  int calls = 0;
  std::vector<std::string> failures;  // of this rank
};

MismatchOutcome run_mismatch_table(Meeting& meeting);

// All failures of all rows in one text; empty if there are none, and there were calls.
std::string describe(const MismatchOutcome& outcome);

}  // namespace sparcl::test
