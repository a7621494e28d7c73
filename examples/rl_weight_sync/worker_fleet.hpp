#pragma once
// The trainer's side of its workers: child processes, and their messages.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rollout_channel.hpp"
#include "sync_options.hpp"

namespace training {

struct Rollout {
  std::uint64_t version;
  std::vector<Token> tokens;
};

struct Goodbye {
  int worker;
  std::uint64_t version;
  std::array<std::uint8_t, 16> hash;
};

class WorkerFleet {
 public:
  WorkerFleet(const SyncOptions& options, std::string address);
  ~WorkerFleet();  // kills the remaining workers
  WorkerFleet(const WorkerFleet&) = delete;
  WorkerFleet& operator=(const WorkerFleet&) = delete;

  void start(int worker);
  void kill(int worker);
  int running() const;

  // Rollouts that have come, at least `least`, unless they take longer than `seconds`. Throws if a
  // worker has ended by itself.
  std::vector<Rollout> collect(std::size_t least, double seconds);
  // Tells all workers to end. Returns the last messages of those that ended in time.
  std::vector<Goodbye> stop(double seconds);

  const std::vector<double>& pauses_s() const { return pauses_s_; }
  const std::vector<double>& joins_s() const {
    return joins_s_;
  }  // from the start of a process to its first version

 private:
  struct Worker {
    int number;
    pid_t process;
    RolloutChannel channel;
    std::int64_t started_ns;
    bool has_joined = false;
    std::optional<Goodbye> goodbye;
  };
  void wait_for_messages(std::int64_t until_ns);
  void receive_all();
  void take(Worker& worker, RolloutMessage&& message);
  static void end(const Worker& worker);

  SyncOptions options_;
  std::string address_;
  std::uint64_t lives_ = 0;
  std::vector<Worker> workers_;
  std::vector<Rollout> rollouts_;
  std::vector<double> pauses_s_, joins_s_;
};

}  // namespace training
