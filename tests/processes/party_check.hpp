#pragma once
// What the rows of faults have in common: their seeds, what holds for every party, and the tally
// that each row prints. A failing seed is replayed by SPARCL_TEST_SEED=<seed>;
// SPARCL_TEST_SEEDS=<n> takes so many a row, whatever the tier, and SPARCL_TEST_SHARD=<i>/<m> those
// of them that are i modulo m (run_row runs the shards side by side).

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/processes/rank_party.hpp"

namespace sparcl::test {

// Three times what docs/explanation/liveness.md promises: other work may load the machine.
constexpr double kKilledSeconds = 3 * 1.0;
constexpr double kLeftSeconds = 3 * 2.0;
constexpr double kStartSeconds = 45;

// What the parties of a row met, printed with it, so that one sees whether it tests anything.
struct Tally {
  int parties = 0, deaths = 0, errors = 0,
      untouched = 0;     // errors and untouched: of ranks that should learn of something
  double slowest_s = 0;  // of such an error
};
extern Tally tally;

void run_seeds(const char* row, std::uint64_t quick, const std::function<void(std::uint64_t)>& run);

class Processes : public testing::TestWithParam<const char*> {
 protected:
  PartyPlan plan_of(std::uint64_t seed) const;
};

// How a rank may have ended, apart from what it said.
enum class End { kClean, kKilled, kAny };

class Check {
 public:
  explicit Check(RankParty& party)
      : party_(party), ends_(static_cast<std::size_t>(party.plan().ranks), End::kClean) {}

  void set_end(int rank, End end) { ends_[static_cast<std::size_t>(rank)] = end; }

  // Lets the party come to its end, and looks at what holds for every row.
  void finish();

  // Every step of this rank succeeded.
  void all_succeeded(int rank);
  // This rank, which the others have given up, learned of it.
  void got_error(int rank);
  // The others learned of the culprit's end in time, by name, unless nothing was left that needs
  // it.
  void others_got_error(int culprit, double since_s, double within_s);
  // Those who shrank, but for one that the others had given up, are all that the new communicator
  // has; they made another series with it.
  void survivors_went_on(int outcast = -1);
  // Of two parts that cannot reach each other one went on: the larger, of two alike that with the
  // lowest rank. `outcast` was alone.
  void one_part_went_on(int outcast);
  // Every rank had its error from somebody's word, not by a time-out. Those who shrank are all that
  // one new communicator has. Returns how many.
  int check_that_one_part_went_on();
  // Of a rank whose init failed. Who waits for rank 0, which made the id, knows its address only.
  static void check_init_error(int rank, const RankStory& story, int culprit, double until_s);

 private:
  void same_new_state();

  RankParty& party_;
  std::vector<End> ends_;
};

inline std::string name_of_lanes(const testing::TestParamInfo<const char*>& info) {
  return std::string(info.param) == "all" ? "shm" : info.param;
}

}  // namespace sparcl::test
