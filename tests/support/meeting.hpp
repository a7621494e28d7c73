#pragma once
// How the ranks of a test get communicators, one after another: as threads, as processes that mpirun started, or by unique ids.
// Tests that are written against this run the same program on every rank, over every transport.

#include <barrier>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Can ranks differ in their settings, by config or environment?
  virtual bool takes_config() const = 0;
  virtual bool takes_environment() const = 0;
  // All ranks call it; the first `ranks` get a communicator, the others nullptr.
  virtual sparclResult_t make(sparclComm_t* comm, int ranks, const sparclConfig_t* config) = 0;
};

// What the threads of one process share.
class ThreadParty {
 public:
  explicit ThreadParty(int ranks) : comms_(static_cast<std::size_t>(ranks)), barrier_(ranks) {}

  // Runs the program on a thread for each rank. Over loopback; with SPARCL_TEST_UNIQUE_ID=1 over ucx, as processes would.
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
    sparclResult_t make(sparclComm_t* comm, int ranks, const sparclConfig_t* config) override {
      *comm = nullptr;
      party_.barrier_.arrive_and_wait();
      if (rank_ == 0) party_.prepare(ranks, config);
      party_.barrier_.arrive_and_wait();
      if (party_.prepared_ != sparclSuccess || rank_ >= ranks) return party_.prepared_;
      if (party_.by_id_) return sparclCommInitRank(comm, ranks, party_.id_, rank_, config);
      *comm = party_.comms_[static_cast<std::size_t>(rank_)];
      return sparclSuccess;
    }

   private:
    ThreadParty& party_;
    int rank_;
  };

  // While the other threads wait, so that the environment may change.
  void prepare(int ranks, const sparclConfig_t* config) {
    if (by_id_) {
      prepared_ = sparclGetUniqueId(&id_);
      return;
    }
    if (config != nullptr && config->timeout_s > 0) setenv("SPARCL_TIMEOUT_S", std::to_string(config->timeout_s).c_str(), 1);
    prepared_ = sparclCommInitLocal(comms_.data(), ranks);
    unsetenv("SPARCL_TIMEOUT_S");
  }

  bool by_id_ = std::getenv("SPARCL_TEST_UNIQUE_ID") != nullptr;
  std::vector<sparclComm_t> comms_;
  sparclUniqueId id_{};
  sparclResult_t prepared_ = sparclSuccess;
  std::barrier<> barrier_;
};

}  // namespace sparcl::test
