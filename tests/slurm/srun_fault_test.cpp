// Ranks that srun started: alone with a unique id, and by MPI with bytes over MPI or UCX. mpirun
// ends a job when a rank dies; srun with
// --kill-on-bad-exit=0 does not, so that here the survivors have their say: a named error in time,
// and a state wholly old or new. SPARCL_TEST_SEED=<seed> replays a party, SPARCL_TEST_SEEDS=<n>
// takes so many a row.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "src/base/seeded_random.hpp"
#include "tests/slurm/srun_party.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr double kKilledSeconds = 3 * 1.0;  // three times what explanation/liveness.md promises

struct Way {
  const char* name;
  const char* program;
  const char* starter;
  const char* transport;
};

std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

constexpr Way kWays[] = {
    {"ById", SPARCL_TEST_RANK_PROGRAM, "--mpi=none", "ucx"},
#ifdef SPARCL_TEST_MPI_RANK_PROGRAM
    {"Mpi", SPARCL_TEST_MPI_RANK_PROGRAM, SPARCL_TEST_MPI_STARTER, "mpi"},
    {"Ucx", SPARCL_TEST_MPI_RANK_PROGRAM, SPARCL_TEST_MPI_STARTER, "ucx"},
#endif
};

class Srun : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (std::getenv("SLURM_CONF") == nullptr)
      GTEST_SKIP() << "skipped: no Slurm here: eval \"$(slurm/one-machine/up --env)\"";
  }

  SrunPlan plan_of(std::uint64_t seed) const {
    SeededRandom random(mix64(seed ^ 0x5121));
    SrunPlan plan;
    plan.seed = seed;
    plan.ranks = static_cast<int>(2 + random.below(4));
    plan.nodes =
        2 + static_cast<int>(random.below(static_cast<std::uint64_t>(std::min(plan.ranks, 4) - 1)));
    plan.program = GetParam().program;
    plan.starter = GetParam().starter;
    plan.victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    constexpr std::array kCommits{"auto", "staged", "early"};
    plan.settings = {{"SPARCL_TRANSPORT", GetParam().transport},
                     {"SPARCL_COMMIT", kCommits[random.below(kCommits.size())]},
                     {"SPARCL_FRAGMENT_BYTES", "65536"},
                     {"SPARCL_DEBUG", "error"},
                     {"SPARCL_TIMEOUT_S", "60"}};
    return plan;
  }

  void run_seeds(std::uint64_t quick, const std::function<void(std::uint64_t)>& run) {
    if (const char* only = std::getenv("SPARCL_TEST_SEED"); only != nullptr)
      return run(std::strtoull(only, nullptr, 10));
    const char* wanted = std::getenv("SPARCL_TEST_SEEDS");
    const std::uint64_t seeds =
        wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : by_tier<std::uint64_t>(quick, 100);
    for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) run(seed);
    std::printf(
        "%s: %d parties, %d ranks had a named error, the slowest after %.2f s; %d were through "
        "before, %d ended by Slurm before, %d kept by MPI\n",
        GetParam().name, parties_, errors_, slowest_s_, untouched_, ended_by_slurm_, kept_by_mpi_);
    EXPECT_GE(errors_ + untouched_, ended_by_slurm_) << "Slurm ends most ranks before they know";
    EXPECT_LE(10 * kept_by_mpi_, errors_ + 10) << "that is no rare thing";
  }

  // What holds for every row.
  void came_to_an_end(SrunParty& party) {
    EXPECT_TRUE(party.finish()) << "a hang";
    ++parties_;
    std::map<int, std::string> hashes;
    for (int rank = 0; rank < party.plan().ranks; ++rank) {
      const RankStory story = party.story(rank);
      EXPECT_TRUE(story.has_met) << "rank " << rank;
      EXPECT_TRUE(story.poisoned_right) << "rank " << rank << ": what came after the error";
      for (const StepRecord& step : story.steps) {
        EXPECT_TRUE(step.right) << "rank " << rank << " step " << step.step << ": holds "
                                << step.holds << ", code " << step.code;
        if (step.code != sparclSuccess) continue;
        EXPECT_EQ(hashes.emplace(step.step, step.hash).first->second, step.hash)
            << "rank " << rank << " step " << step.step;
      }
    }
  }

  static double last_seen(const RankStory& story) {
    double last = story.met_at_s;
    for (const StepRecord& step : story.steps) last = std::max(last, step.at_s);
    return last;
  }

  // The victim was through with its start, and ended, before this rank was.
  void check_init_error(const SrunParty& party, int rank, const RankStory& story, double since_s,
                        double within_s) {
    ++errors_;
    slowest_s_ = std::max(slowest_s_, story.met_at_s - since_s);
    EXPECT_LT(story.met_at_s - since_s, within_s) << "rank " << rank << ": " << story.init_error;
    EXPECT_TRUE(poisons(story.init_code)) << "rank " << rank << ": code " << story.init_code;
    EXPECT_THAT(story.init_error, HasSubstr(fmt::format("rank {} (host ", party.plan().victim)))
        << "rank " << rank;
    EXPECT_THAT(story.init_error,
                HasSubstr(fmt::format("pid {}", party.story(party.plan().victim).pid)))
        << "rank " << rank;
  }

  // Every rank but the victim: its error names the victim, and came in time.
  void others_got_error(const SrunParty& party, double since_s, double within_s) {
    const int victim = party.plan().victim;
    const bool may_have_succeeded = party.story(victim).last_begun >= party.plan().steps - 1;
    for (int rank = 0; rank < party.plan().ranks; ++rank) {
      if (rank == victim) continue;
      const RankStory story = party.story(rank);
      if (story.has_met && story.init_code != sparclSuccess) {
        check_init_error(party, rank, story, since_s, within_s);
        continue;
      }
      const StepRecord* error = story.error();
      if (error == nullptr && !story.has_ended && party.was_ended_by_slurm()) {
        ++ended_by_slurm_;
        continue;
      }
      if (error == nullptr && party.is_kept_by_mpi(rank)) {
        ++kept_by_mpi_;
        continue;
      }
      EXPECT_TRUE(story.has_ended || party.plan().exits || party.was_ended_by_slurm() ||
                  party.is_kept_by_mpi(rank))
          << "rank " << rank << " did not come to its end";
      if (error == nullptr) {
        ++untouched_;
        EXPECT_TRUE(may_have_succeeded) << "rank " << rank << " has no error";
        continue;
      }
      ++errors_;
      slowest_s_ = std::max(slowest_s_, error->at_s - since_s);
      EXPECT_LT(error->at_s - since_s, within_s) << "rank " << rank << ": " << error->error;
      EXPECT_THAT(error->error, StartsWith(fmt::format("rank {}: rank {} (host ", rank, victim)));
      EXPECT_THAT(error->error, HasSubstr(fmt::format("pid {}", party.story(victim).pid)));
      if (!story.failed_ranks.empty()) {
        EXPECT_EQ(story.failed_ranks.front(), victim) << "rank " << rank << ": " << error->error;
      }
    }
  }

 private:
  int parties_ = 0, errors_ = 0, untouched_ = 0, ended_by_slurm_ = 0, kept_by_mpi_ = 0;
  double slowest_s_ = 0;
};

TEST_P(Srun, NoFault) {
  run_seeds(2, [&](std::uint64_t seed) {
    SrunParty party(plan_of(seed));
    ASSERT_TRUE(party.start());
    came_to_an_end(party);
    for (int rank = 0; rank < party.plan().ranks; ++rank) {
      const RankStory story = party.story(rank);
      EXPECT_EQ(story.steps.size(), static_cast<std::size_t>(party.plan().steps))
          << "rank " << rank;
      for (const StepRecord& step : story.steps)
        EXPECT_EQ(step.code, sparclSuccess) << "rank " << rank << ": " << step.error;
      EXPECT_TRUE(story.has_ended) << "rank " << rank;
    }
    if (HasFailure()) ADD_FAILURE() << party.describe();
  });
}

TEST_P(Srun, KilledAtRandomTimes) {
  run_seeds(1, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x411));
    SrunPlan plan = plan_of(seed);
    plan.steps = 200;
    SrunParty party(plan);
    ASSERT_TRUE(party.start());
    ASSERT_TRUE(party.run_until([&] { return party.all_have_done(0); })) << party.describe();
    std::this_thread::sleep_for(std::chrono::duration<double>(0.2 * random.unit()));
    const double killed_at = party.now_s();
    party.signal(plan.victim, SIGKILL);
    came_to_an_end(party);
    others_got_error(party, killed_at, kKilledSeconds);
    if (HasFailure()) ADD_FAILURE() << party.describe();
  });
}

TEST_P(Srun, KilledAtFailpoints) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "skipped: built with SPARCL_FAILPOINTS=OFF";
  constexpr std::array kPlaces{"broadcast.begin",         "broadcast.agreed",
                               "broadcast.receiving",     "broadcast.before_vote",
                               "broadcast.before_commit", "broadcast.committed",
                               "broadcast.sending"};
  run_seeds(1, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xfa11));
    SrunPlan plan = plan_of(seed);
    plan.steps = 40;
    plan.failpoint = fmt::format("{}:{}:kill", kPlaces[seed % kPlaces.size()], 1 + random.below(4));
    SrunParty party(plan);
    ASSERT_TRUE(party.start());
    came_to_an_end(party);
    EXPECT_FALSE(party.story(plan.victim).has_ended) << "the victim lives: " << plan.failpoint;
    others_got_error(party, last_seen(party.story(plan.victim)), kKilledSeconds);
    if (HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// A late rank finds several gone: it names who was the first, not who ended because of that.
TEST_P(Srun, SurvivorsThatExit) {
  run_seeds(1, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xe817));
    SrunPlan plan = plan_of(seed);
    plan.ranks = static_cast<int>(3 + random.below(2));
    plan.nodes = std::min(plan.nodes, plan.ranks);
    plan.exits = true;
    plan.victim =
        plan.ranks - 1;  // a look at the peers in their order would find another one first
    const int late = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.victim)));
    const std::uint64_t at = 1 + random.below(static_cast<std::uint64_t>(plan.steps - 1));
    plan.acts = {{plan.victim, fmt::format("exit:{}", at)}, {late, fmt::format("late:{}", at)}};
    SrunParty party(plan);
    ASSERT_TRUE(party.start());
    came_to_an_end(party);
    others_got_error(party, last_seen(party.story(plan.victim)), kKilledSeconds);
    if (HasFailure()) ADD_FAILURE() << party.describe();
  });
}

TEST_P(Srun, Stopped) {
  run_seeds(1, [&](std::uint64_t seed) {
    const double liveness_s = by_tier(2.5, 5.0);
    SrunPlan plan = plan_of(seed);
    plan.settings.emplace_back("SPARCL_LIVENESS_S", fmt::format("{}", liveness_s));
    plan.steps = 400;
    SrunParty party(plan);
    ASSERT_TRUE(party.start());
    // Only who has once answered a ping can be found silent (docs/explanation/liveness.md), and a
    // busy machine takes its time with the first ones.
    ASSERT_TRUE(party.run_until([&] { return party.all_have_done(20); })) << party.describe();
    const double stopped_at = party.now_s();
    party.signal(plan.victim, SIGSTOP);
    const auto others_ended = [&] {
      for (int rank = 0; rank < plan.ranks; ++rank) {
        if (rank != plan.victim && !party.story(rank).has_ended && party.is_alive(rank))
          return false;
      }
      return true;
    };
    EXPECT_TRUE(party.run_until(others_ended)) << "a hang";
    EXPECT_TRUE(party.is_alive(plan.victim) || party.was_ended_by_slurm())
        << "who was only stopped is gone";
    party.signal(plan.victim, SIGKILL);
    came_to_an_end(party);
    others_got_error(party, stopped_at, 3 * liveness_s);
    if (HasFailure()) ADD_FAILURE() << party.describe();
  });
}

std::string name_of_way(const testing::TestParamInfo<Way>& tested) { return tested.param.name; }

INSTANTIATE_TEST_SUITE_P(Ways, Srun, testing::ValuesIn(kWays), name_of_way);

}  // namespace
}  // namespace sparcl::test
