#pragma once
// Ranks of the rank program as one job step of srun, whose survivors go on when one of them ends.

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/processes/rank_story.hpp"
#include "tests/support/process_party.hpp"

namespace sparcl::test {

struct SrunPlan {
  std::uint64_t seed = 1;
  int ranks = 4;
  int nodes = 2;
  int steps = 8;
  std::string program;  // rank program
  std::string starter;  // --mpi=...
  double deadline_s = 90;
  int victim = -1;
  std::string failpoint;                                      // SPARCL_TEST_FAILPOINT of the victim
  bool exits = false;                                         // SPARCL_TEST_EXITS of all ranks
  std::map<int, std::string> acts;                            // by rank: SPARCL_TEST_ACT
  std::vector<std::pair<std::string, std::string>> settings;  // variables of all ranks

  std::string describe() const;
};

// All times are seconds of std::chrono::steady_clock, which the ranks' processes share with this
// one.
class SrunParty {
 public:
  explicit SrunParty(const SrunPlan& plan);
  ~SrunParty();  // ends what is left, and removes what the ranks wrote
  SrunParty(const SrunParty&) = delete;
  SrunParty& operator=(const SrunParty&) = delete;

  bool start();
  static double now_s();
  // False: the plan's deadline is over, or srun has ended.
  bool run_until(const std::function<bool()>& enough);
  bool all_have_done(std::size_t steps) const;  // and met before
  // Until srun has ended, or waits for a rank that MPI keeps; false: neither by the deadline.
  bool finish();

  // To a rank that has met the others.
  void signal(int rank, int number) const;
  bool is_alive(int rank) const;  // likewise
  bool was_ended_by_slurm() const;
  // Open MPI 4.1 may spin for ever in a rank whose write met a dead rank's socket
  // (docs/explanation/liveness.md).
  bool is_kept_by_mpi(int rank) const;
  RankStory story(int rank) const;
  std::string errors(int rank) const;  // its standard error
  const SrunPlan& plan() const { return plan_; }
  std::string describe() const;

 private:
  std::vector<ProcessLine> lines(int rank) const;
  std::string text_of(const char* kind, int rank) const;

  SrunPlan plan_;
  std::filesystem::path folder_;
  ProcessParty processes_;
};

}  // namespace sparcl::test
