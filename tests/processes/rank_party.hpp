#pragma once
// Ranks of the rank program as a party of processes, and what each of them told.

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/processes/rank_story.hpp"

namespace sparcl::test {

struct PartyPlan {
  std::uint64_t seed = 1;
  int ranks = 2;
  int steps = 8;
  std::string lanes = "all";              // UCX_TLS
  double timeout_s = 60;                  // SPARCL_TIMEOUT_S: what liveness finds must not need it
  bool shrinks = false;                   // after an error the ranks that live go on
  double deadline_s = 90;                 // of the whole party: beyond it is a hang
  std::map<int, std::string> failpoints;  // by rank: SPARCL_TEST_FAILPOINT
  std::map<int, std::string> acts;        // by rank: SPARCL_TEST_ACT
  std::map<std::string, std::string> settings;  // of all ranks; they win over what the seed gives
  std::vector<std::string> namespaces;          // of the network, by rank; empty: all in this one

  std::string describe() const;
};

class RankParty {
 public:
  explicit RankParty(const PartyPlan& plan);
  ~RankParty();
  RankParty(const RankParty&) = delete;
  RankParty& operator=(const RankParty&) = delete;

  // Starts all ranks; false with trouble() if they did not start at all.
  bool start();
  ProcessParty& processes() { return processes_; }
  const PartyPlan& plan() const { return plan_; }
  // All ranks have a communicator, or have ended without one.
  bool wait_until_met(double seconds);
  bool finish() { return processes_.finish(plan_.deadline_s); }

  RankStory story(int rank) const;
  // For the text of a failure: how each rank ended and what it said last.
  std::string describe() const;
  const std::string& trouble() const { return trouble_; }

  // What the party has left behind: processes, zombies, files in its own folder for temporary files
  // and in /dev/shm.
  std::string left_behind() const;

 private:
  bool start_rank(int rank, const std::string& id);

  PartyPlan plan_;
  std::filesystem::path folder_;
  std::set<std::string> shared_before_;
  ProcessParty processes_;
  std::string trouble_;
};

// Takes a /dev/shm of this process's own, so that others' files are not taken for what a party left
// behind. Before any thread. Empty: done; else the reason why not: then /dev/shm is not looked at.
std::string look_for_files_left();

}  // namespace sparcl::test
