#pragma once
// Runs all ranks of a deterministic world on one thread. One seed repeatedly picks the next rank to
// run, or the next message to deliver. If no rank can run, time jumps to the next timer. The same
// seed gives the same run.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/transport/loopback/loopback_world.hpp"

namespace sparcl::transport {

// One rank's program, cut into steps. For the collectives: engine.step(), engine.next_deadline(),
// task.done().
struct SimRank {
  std::function<bool()>
      step;  // makes some progress; false: nothing to do until something arrives or a timer is due
  std::function<double()> next_deadline;  // on the world's clock; infinity for none. May be empty
  std::function<bool()> finished;         // the rank is not stepped any more
};

struct SimOutcome {
  enum class End { kFinished, kDeadlock, kStepLimit };
  End end = End::kFinished;
  std::uint64_t steps = 0;
  std::uint64_t deliveries = 0;
  double seconds = 0;  // virtual
  std::string report;  // empty if all finished; else names the stuck ranks
  bool ok() const { return end == End::kFinished; }
};

class SimScheduler {
 public:
  SimScheduler(LoopbackWorld& world, std::uint64_t seed);

  // In the order of ranks.
  void add(SimRank rank) { ranks_.push_back(std::move(rank)); }

  // Virtual time of one step, so that clocks that are read show progress.
  void set_step_seconds(double seconds) { step_seconds_ = seconds; }

  SimOutcome run(std::uint64_t max_steps = 50'000'000);

 private:
  // Different schedules find different bugs.
  enum class Policy : std::uint8_t { kUniform, kLazyNetwork, kEagerNetwork, kUnfair };

  bool move_something(SimOutcome& outcome, std::uint64_t max_steps);
  bool step_someone(SimOutcome& outcome);
  std::size_t pick_awake();
  void wake_roused();
  void wake_all();
  bool advance_clock();
  std::string describe_stuck() const;

  LoopbackWorld& world_;
  SeededRandom random_;
  Policy policy_;
  double step_seconds_ = 1e-6;
  std::vector<SimRank> ranks_;
  std::vector<std::size_t>
      awake_;  // ranks whose last step did something, or that an event has reached since
  std::vector<bool> is_awake_;
  std::vector<int> roused_;
};

}  // namespace sparcl::transport
