#pragma once
// Who joins and who is killed before which step.

#include <vector>

namespace training {

enum class WorkerChange { kJoin, kKill };

struct PlannedChange {
  int step;  // before this one; steps count from 1
  int worker;
  WorkerChange change;
};

// All but the last from the start; the last joins after a third of the steps; after two thirds the
// first is killed, and comes back a twelfth of the steps later: at once where it is the only one.
// In the order of the steps.
std::vector<PlannedChange> plan_workers(int workers, int steps);

}  // namespace training
