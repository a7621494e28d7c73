// Random collectives, ranks as threads: over loopback, or with SPARCL_TEST_UNIQUE_ID=1 over ucx.
//   random_threads [--seed S] [--calls N] [--series I]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/random/random_series.hpp"

int main(int argc, char** argv) {
  using namespace sparcl::test;
  RandomPlan plan;
  if (!parse(argc, argv, plan)) return 2;
  constexpr int kRanks = 8;
  const auto begin = std::chrono::steady_clock::now();
  bool right[kRanks] = {};
  ThreadParty party(kRanks);
  party.run([&](Meeting& meeting) {
    const RandomOutcome outcome = run_random(meeting, plan);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    right[meeting.rank()] = report(meeting, plan, outcome, argv[0], seconds);
    if (outcome.failures.empty()) return;
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // for what the others find
    std::_Exit(1);                                         // they go on without this rank
  });
  for (const bool each : right) {
    if (!each) return 1;
  }
  return 0;
}
