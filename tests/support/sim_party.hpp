#pragma once
// All ranks of a collective on one thread, scheduled from one seed.

#include <functional>
#include <memory>
#include <vector>

#include "collectives/table/collective_table.hpp"
#include "counting_transport.hpp"
#include "src/comm/engine/engine.hpp"
#include "src/transport/fault/fault_transport.hpp"
#include "src/transport/loopback/loopback_world.hpp"
#include "src/transport/loopback/sim_scheduler.hpp"

namespace sparcl::test {

using comm::Engine;
using comm::Task;

struct SimOptions {
  double timeout_s = 30;
  bool announce_death = true;
  const transport::FaultPlan* faults = nullptr;
};

class SimParty {
 public:
  SimParty(int ranks, std::uint64_t seed, const SimOptions& options = {})
      : seed_(seed),
        bytes_sent_(static_cast<std::size_t>(ranks)),
        world_(ranks,
               {.deterministic = true, .seed = seed, .announce_death = options.announce_death}) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::unique_ptr<transport::Transport> transport = world_.make_transport(rank);
      transport::FaultTransport* fault = nullptr;
      if (options.faults != nullptr) {
        auto wrapped =
            std::make_unique<transport::FaultTransport>(std::move(transport), *options.faults);
        wrapped->on_kill([this, rank] { world_.kill(rank); });
        fault = wrapped.get();
        transport = std::move(wrapped);
      }
      faults_.push_back(fault);
      transport = std::make_unique<CountingTransport>(std::move(transport),
                                                      bytes_sent_[static_cast<std::size_t>(rank)]);
      transports_.push_back(std::move(transport));
      engines_.push_back(std::make_unique<Engine>(*transports_.back(), options.timeout_s));
      engines_.back()->set_collectives(collectives::collective_table());
    }
  }

  int size() const { return static_cast<int>(engines_.size()); }
  Engine& engine(int rank) { return *engines_[static_cast<std::size_t>(rank)]; }
  transport::LoopbackWorld& world() { return world_; }
  // So far, of all calls.
  std::uint64_t bytes_sent(int rank, int peer) const {
    return bytes_sent_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(peer)];
  }
  bool is_killed(int rank) const {
    const transport::FaultTransport* fault = faults_[static_cast<std::size_t>(rank)];
    return fault != nullptr && fault->is_killed();
  }

  // Runs one program a rank to its end; results() has what each returned. May be called again.
  transport::SimOutcome run(const std::function<Task(int rank)>& program) {
    std::vector<Task> tasks;
    for (int rank = 0; rank < size(); ++rank) tasks.push_back(program(rank));
    transport::SimScheduler scheduler(world_, seed_++);
    for (int rank = 0; rank < size(); ++rank) {
      Engine& engine = this->engine(rank);
      Task& task = tasks[static_cast<std::size_t>(rank)];
      transport::FaultTransport* fault = faults_[static_cast<std::size_t>(rank)];
      engine.start(task);
      scheduler.add({.step = [&engine] { return engine.step(); },
                     .next_deadline =
                         [&engine, fault] {
                           const double own = engine.next_deadline();
                           return fault != nullptr ? fault->next_wake(own) : own;
                         },
                     .finished =
                         [&task, fault] {
                           if (fault == nullptr) return task.done();
                           return fault->is_killed() || (task.done() && !fault->holds_back());
                         }});
    }
    const transport::SimOutcome outcome = scheduler.run();
    results_.clear();
    for (int rank = 0; rank < size(); ++rank) {
      Task& task = tasks[static_cast<std::size_t>(rank)];
      if (!task.done()) {  // killed, or stuck, so that the test fails: its frames must end all the
                           // same
        engine(rank).fail(Status(Code::kInternalError, "stuck"), rank);
        engine(rank).finish(task);
      }
      results_.push_back(task.result());
    }
    return outcome;
  }

  const Status& result(int rank) const { return results_[static_cast<std::size_t>(rank)]; }

 private:
  std::uint64_t seed_;
  std::vector<std::vector<std::uint64_t>> bytes_sent_;  // by rank and peer
  transport::LoopbackWorld world_;
  std::vector<transport::FaultTransport*> faults_;  // nullptr: no faults on this rank
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Status> results_;
};

inline const std::vector<int>& rank_counts() {
  static const std::vector<int> counts{1, 2, 3, 4, 5, 7, 8};
  return counts;
}

}  // namespace sparcl::test
