#pragma once
// What the stand-in for NCCL holds, for its own sources: communicators, and the steps in which
// their ranks meet.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

struct ncclComm;

namespace sparcl::test::fake {

constexpr int kSuccess = 0, kInternalError = 3, kInvalidArgument = 4, kInvalidUsage = 5,
              kInProgress = 7;

struct Transfer {  // with one peer
  int peer = 0;
  void* bytes = nullptr;  // where the test can reach them
  std::size_t count = 0;
};

struct Step {  // one collective, of all ranks
  std::vector<const void*> sends;
  std::vector<std::vector<Transfer>> sent_to, received_from;  // of groups: by rank
  std::vector<std::string> calls;
  std::vector<std::byte> result;                // the same for all
  std::vector<std::vector<std::byte>> results;  // of groups: by rank
  int came = 0;
  bool is_done = false;
  bool is_broken = false;  // a rank has left it: what it sent may be gone
};

struct Clique {
  int size = 0;
  int came = 0;
  std::set<int> ranks;
  std::map<std::uint64_t, Step> steps;
};

struct World {
  std::mutex mutex;
  std::condition_variable moved;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::map<std::string, int> calls;
  std::map<std::pair<std::string, int>, int> failures;
  std::set<int> held, held_gpus, held_calls;
  int alive = 0, aborts = 0, ids = 0, groups = 0;
};
World& world();

// The mutex is held. What a call answers with: 0, or what the test wants.
int counted(const std::string& function, int rank);
// The mutex is held. A call that goes on in a thread of NCCL's: what it answers with.
int begun(const char* function, ncclComm* comm);
// The mutex is held. Steps are numbered as they are called, whatever stream comes to its own first;
// those of graphs as they run.
std::uint64_t number_of(ncclComm* comm, void* stream);
// In the stream: all ranks meet and put in what they bring, the last one does the work, and each
// takes the result. Until then, or the comm's end, it waits.
using StepPart = std::function<void(Step& step)>;
void meet(ncclComm* comm, std::uint64_t number, const std::string& call, const StepPart& put,
          const StepPart& work, const StepPart& take);
std::size_t bytes_of(int type);
// This thread has a group that is not ended.
bool is_grouped();

}  // namespace sparcl::test::fake

struct ncclComm {
  std::shared_ptr<sparcl::test::fake::Clique> clique;
  int rank = 0;
  std::uint64_t next_step = 0, next_graph_step = 0;
  int pending_polls = 0;  // of the last call, until it is through
  int later_result = sparcl::test::fake::kSuccess;
  int async_error = sparcl::test::fake::kSuccess;
  bool is_held = false, is_aborted = false;
};

#define FAKE extern "C" __attribute__((visibility("default")))
