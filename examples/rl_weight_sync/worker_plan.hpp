#pragma once
// Plans which workers join and which are killed, and before which step.

#include <vector>

namespace training {

enum class WorkerChange { kJoin, kKill };

struct PlannedChange {
  int step;  // before this one; steps count from 1
  int worker;
  WorkerChange change;
};

// All workers but the last join at the start, and the last joins after a third of the steps. After
// two thirds the first is killed. It returns a twelfth of the steps later, or at once if it is the
// only one. In the order of the steps.
std::vector<PlannedChange> plan_workers(int workers, int steps);

}  // namespace training
