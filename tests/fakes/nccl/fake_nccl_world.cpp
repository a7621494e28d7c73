#include "tests/fakes/nccl/fake_nccl_world.hpp"

#include <cstdlib>

#include "tests/fakes/nccl/fake_nccl.hpp"

extern "C" int cuStreamIsCapturing(void* stream, int* status);

namespace sparcl::test {
namespace fake {
namespace {

constexpr std::uint64_t kOfAGraph = UINT64_MAX;

}  // namespace

World& world() {
  static World* const made = new World;
  return *made;
}

int counted(const std::string& function, int rank) {
  ++world().calls[function];
  const auto failure = world().failures.find({function, rank});
  if (failure == world().failures.end()) return kSuccess;
  const int result = failure->second;
  world().failures.erase(failure);
  return result;
}

int begun(const char* function, ncclComm* comm) {
  if (is_grouped()) std::abort();  // this stand-in has groups of sends and receives alone
  if (comm->is_aborted) return kInvalidUsage;
  if (comm->pending_polls > 0) return kInvalidUsage;  // the last call is not through
  comm->pending_polls = 2;
  comm->later_result = counted(function, comm->rank);
  return kInProgress;
}

std::uint64_t number_of(ncclComm* comm, void* stream) {
  int is_captured = 0;
  (void)cuStreamIsCapturing(stream, &is_captured);
  return is_captured != 0 ? kOfAGraph : 2 * comm->next_step++;
}

void meet(ncclComm* comm, std::uint64_t number, const std::string& call, const StepPart& put,
          const StepPart& work, const StepPart& take) {
  std::unique_lock lock(world().mutex);
  const std::shared_ptr<Clique> clique = comm->clique;
  if (world().held_gpus.contains(comm->rank))
    world().moved.wait(lock, [&] { return comm->is_aborted; });
  Step& step = clique->steps[number != kOfAGraph ? number : 2 * comm->next_graph_step++ + 1];
  put(step);
  step.calls.push_back(call);
  if (++step.came == clique->size && !comm->is_aborted && !step.is_broken) {
    for (const std::string& each : step.calls) {
      if (each != step.calls[0]) std::abort();  // NCCL would hang, or worse
    }
    work(step);
    step.is_done = true;
    world().moved.notify_all();
  }
  world().moved.wait(lock, [&] { return step.is_done || comm->is_aborted; });
  if (step.is_done)
    take(step);
  else
    step.is_broken = true;
}

}  // namespace fake

using fake::world;

void fail_nccl(const std::string& function, int rank, int result) {
  const std::lock_guard lock(world().mutex);
  world().failures[{function, rank}] = result;
}

void hold_init(int rank) {
  const std::lock_guard lock(world().mutex);
  world().held.insert(rank);
}

void hold_calls(int rank) {
  const std::lock_guard lock(world().mutex);
  world().held_calls.insert(rank);
}

void hold_collectives(int rank) {
  const std::lock_guard lock(world().mutex);
  world().held_gpus.insert(rank);
}

void reset_nccl() {
  const std::lock_guard lock(world().mutex);
  world().failures.clear();
  world().cliques.clear();
  world().held.clear();
  world().held_gpus.clear();
  world().held_calls.clear();
  world().calls.clear();
  world().aborts = 0;
}

int nccl_comms_alive() {
  const std::lock_guard lock(world().mutex);
  return world().alive;
}

int nccl_aborts() {
  const std::lock_guard lock(world().mutex);
  return world().aborts;
}

int nccl_calls(const std::string& function) {
  const std::lock_guard lock(world().mutex);
  return world().calls[function];
}

int nccl_open_groups() {
  const std::lock_guard lock(world().mutex);
  return world().groups;
}

}  // namespace sparcl::test
