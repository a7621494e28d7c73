#include "examples/rl_weight_sync/worker_plan.hpp"

#include <gtest/gtest.h>

#include <set>

namespace training {
namespace {

// Whatever the numbers: in order, nobody joins twice, none but a running one is killed, all run in
// the end, and always one.
TEST(WorkerPlan, LeavesAllRunning) {
  for (const int workers : {1, 2, 3, 8}) {
    for (const int steps : {1, 2, 3, 5, 60}) {
      std::set<int> running;
      int last_step = 1, kills = 0;
      for (const PlannedChange& change : plan_workers(workers, steps)) {
        EXPECT_GE(change.step, last_step);
        EXPECT_LE(change.step, steps);
        EXPECT_TRUE(change.step == last_step || !running.empty())
            << workers << " workers, " << steps << " steps";
        last_step = change.step;
        const bool joins = change.change == WorkerChange::kJoin;
        EXPECT_EQ(joins ? running.insert(change.worker).second : running.erase(change.worker) == 1,
                  true);
        kills += joins ? 0 : 1;
      }
      EXPECT_EQ(running.size(), static_cast<std::size_t>(workers)) << steps;
      EXPECT_EQ(kills, 1);
    }
  }
}

}  // namespace
}  // namespace training
