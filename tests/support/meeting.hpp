#pragma once
// How the ranks of a test get communicators, one after another: as threads, as processes that
// mpirun started, or by unique ids. Tests that are written against this run the same program on
// every rank, over every transport.

#include <barrier>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

using Variables = std::vector<std::pair<std::string, std::string>>;

class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Can ranks differ in their settings, by config or environment?
  virtual bool takes_config() const = 0;
  virtual bool takes_environment() const = 0;
  // Returns when all ranks have come here.
  virtual void meet() = 0;
  // All ranks call it; the first `ranks` get a communicator, the others nullptr. variables: of the
  // environment while it is made, the same on all ranks.
  virtual sparclResult_t make(sparclComm_t* comm, int ranks, const sparclConfig_t* config,
                              const Variables& variables = {}) = 0;
};

// Sets variables for a scope, while no other thread looks at the environment.
class ScopedVariables {
 public:
  explicit ScopedVariables(const Variables& variables) : variables_(variables) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~ScopedVariables() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  ScopedVariables(const ScopedVariables&) = delete;
  ScopedVariables& operator=(const ScopedVariables&) = delete;

 private:
  const Variables& variables_;
};

// What the threads of one process share.
class ThreadParty {
 public:
  explicit ThreadParty(int ranks) : comms_(static_cast<std::size_t>(ranks)), barrier_(ranks) {}

  // Runs the program on a thread for each rank. Over loopback; with SPARCL_TEST_UNIQUE_ID=1 over
  // ucx, as processes would.
  void run(const std::function<void(Meeting&)>& program) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < static_cast<int>(comms_.size()); ++rank) {
      threads.emplace_back([&, rank] {
        Seat seat(*this, rank);
        program(seat);
      });
    }
  }

 private:
  class Seat final : public Meeting {
   public:
    Seat(ThreadParty& party, int rank) : party_(party), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(party_.comms_.size()); }
    bool takes_config() const override { return party_.by_id_; }
    bool takes_environment() const override { return false; }
    void meet() override { party_.barrier_.arrive_and_wait(); }
    sparclResult_t make(sparclComm_t* comm, int ranks, const sparclConfig_t* config,
                        const Variables& variables) override {
      *comm = nullptr;
      party_.barrier_.arrive_and_wait();
      if (rank_ == 0) party_.prepare(ranks, config, variables);
      party_.barrier_.arrive_and_wait();
      const sparclResult_t made = rank_ < ranks ? take(comm, ranks, config) : party_.prepared_;
      party_.barrier_.arrive_and_wait();
      if (rank_ == 0) party_.scope_.reset();
      return made;
    }

   private:
    sparclResult_t take(sparclComm_t* comm, int ranks, const sparclConfig_t* config) {
      if (party_.prepared_ != sparclSuccess) return party_.prepared_;
      if (party_.by_id_) return sparclCommInitRank(comm, ranks, party_.id_, rank_, config);
      *comm = party_.comms_[static_cast<std::size_t>(rank_)];
      return sparclSuccess;
    }

    ThreadParty& party_;
    int rank_;
  };

  // While the other threads wait, so that the environment may change.
  void prepare(int ranks, const sparclConfig_t* config, const Variables& variables) {
    variables_ = variables;
    if (!by_id_ && config != nullptr && config->timeout_s > 0)
      variables_.emplace_back("SPARCL_TIMEOUT_S", std::to_string(config->timeout_s));
    scope_.emplace(variables_);
    prepared_ = by_id_ ? sparclGetUniqueId(&id_) : sparclCommInitLocal(comms_.data(), ranks);
  }

  bool by_id_ = std::getenv("SPARCL_TEST_UNIQUE_ID") != nullptr;
  std::vector<sparclComm_t> comms_;
  sparclUniqueId id_{};
  sparclResult_t prepared_ = sparclSuccess;
  Variables variables_;
  std::optional<ScopedVariables> scope_;
  std::barrier<> barrier_;
};

}  // namespace sparcl::test
