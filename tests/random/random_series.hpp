#pragma once
// Random collectives on every rank of a meeting, series by series: each has a communicator of its
// own, of 2 to 8 ranks, with settings of its own.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/random/process_usage.hpp"
#include "tests/support/meeting.hpp"

namespace sparcl::test {

struct RandomPlan {
  std::uint64_t seed = 1;
  std::uint64_t calls = 500;          // at least
  std::uint64_t first_series = 0;     // to replay one
  std::uint64_t series = UINT64_MAX;  // at most so many
};

struct RandomOutcome {
  std::uint64_t series = 0, calls = 0,
                refused = 0;           // of all ranks together, and of them such as must be refused
  std::uint64_t by_operation[6] = {};  // delta, update, sparse, top-k, masked, sparse sum
  std::uint64_t by_ranks[9] = {};
  std::uint64_t bytes = 0;  // that broadcasts would have delivered if dense, as this rank saw them
  std::vector<std::string> failures;  // of this rank
  std::vector<ProcessUsage> usage;    // after each series
};

RandomOutcome run_random(Meeting& meeting, const RandomPlan& plan);

// --seed S --calls N --series I (that one alone)
bool parse(int argc, char** argv, RandomPlan& plan);

// One rank's end of a run: prints what it saw (rank 0) and what was wrong; false if anything was,
// or memory or descriptors grew.
bool report(const Meeting& meeting, const RandomPlan& plan, const RandomOutcome& outcome,
            const std::string& replay, double seconds);

}  // namespace sparcl::test
