#pragma once
// Runs a function on every rank of a local communicator, each on its own thread, as a user's
// program would.

#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl::test {

constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8};

class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : comms_(static_cast<std::size_t>(ranks), nullptr) {
    created_ = std::getenv("SPARCL_TEST_UNIQUE_ID") != nullptr
                   ? meet()
                   : sparclCommInitLocal(comms_.data(), ranks);
  }
  ~ThreadRanks() {
    (void)run([](int, sparclComm_t comm) { return sparclCommDestroy(comm); });
  }
  sparclResult_t created() const { return created_; }
  sparclComm_t comm(int rank) const { return comms_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(comms_.size()); }

  // On the rank's own thread, before the party ends.
  sparclResult_t destroy(int rank) {
    return sparclCommDestroy(std::exchange(comms_[static_cast<std::size_t>(rank)], nullptr));
  }

  // To an owner of its own.
  void give_up(int rank) { comms_[static_cast<std::size_t>(rank)] = nullptr; }

  // The result of each rank.
  std::vector<sparclResult_t> run(
      const std::function<sparclResult_t(int rank, sparclComm_t comm)>& program) {
    std::vector<sparclResult_t> results(comms_.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back(
          [&, rank] { results[static_cast<std::size_t>(rank)] = program(rank, comm(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

 private:
  // The same tests over UCX: by a unique id, as processes would.
  sparclResult_t meet() {
    sparclUniqueId id;
    if (const sparclResult_t made = sparclGetUniqueId(&id); made != sparclSuccess) return made;
    const std::vector<sparclResult_t> results = run([&](int rank, sparclComm_t) {
      return sparclCommInitRank(&comms_[static_cast<std::size_t>(rank)], size(), id, rank, nullptr);
    });
    for (const sparclResult_t result : results) {
      if (result != sparclSuccess) return result;
    }
    return sparclSuccess;
  }

  std::vector<sparclComm_t> comms_;
  sparclResult_t created_;
};

}  // namespace sparcl::test
