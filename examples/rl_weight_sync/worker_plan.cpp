#include "worker_plan.hpp"

#include <algorithm>

namespace training {

std::vector<PlannedChange> plan_workers(int workers, int steps) {
  std::vector<PlannedChange> plan;
  const int last = workers - 1;
  for (int worker = 0; worker < std::max(1, last); ++worker)
    plan.push_back({1, worker, WorkerChange::kJoin});
  if (last > 0) plan.push_back({steps / 3 + 1, last, WorkerChange::kJoin});
  const int killed = 2 * steps / 3 + 1;
  plan.push_back({killed, 0, WorkerChange::kKill});
  plan.push_back(
      {last > 0 ? std::min(steps, killed + steps / 12) : killed, 0, WorkerChange::kJoin});
  return plan;
}

}  // namespace training
