#pragma once
// Runs a function on every rank of a local communicator, each on its own thread, as a user's program would.

#include <functional>
#include <thread>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : comms_(static_cast<std::size_t>(ranks), nullptr) {
    created_ = sparclCommInitLocal(comms_.data(), ranks);
  }
  ~ThreadRanks() {
    for (const sparclComm_t comm : comms_) (void)sparclCommDestroy(comm);
  }
  sparclResult_t created() const { return created_; }
  sparclComm_t comm(int rank) const { return comms_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(comms_.size()); }

  // The result of each rank.
  std::vector<sparclResult_t> run(const std::function<sparclResult_t(int rank, sparclComm_t comm)>& program) {
    std::vector<sparclResult_t> results(comms_.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] { results[static_cast<std::size_t>(rank)] = program(rank, comm(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

 private:
  std::vector<sparclComm_t> comms_;
  sparclResult_t created_;
};

}  // namespace sparcl::test
