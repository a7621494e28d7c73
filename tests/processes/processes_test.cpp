// What a collective owes its callers when processes die, stop, leave or call otherwise: no hang,
// every survivor's state wholly old or wholly new, a named error in time, and nothing left behind.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>

#include "src/base/seeded_random.hpp"
#include "tests/processes/party_check.hpp"
#include "tests/processes/rank_party.hpp"
#include "tests/processes/step_series.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::test {
namespace {

using testing::HasSubstr;

// --- no fault ---

TEST_P(Processes, NoFault) {
  run_seeds("NoFault", 3, [&](std::uint64_t seed) {
    RankParty party(plan_of(seed));
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    for (int rank = 0; rank < party.plan().ranks; ++rank) check.all_succeeded(rank);
  });
}

// --- killed ---

struct Place {
  const char* name;
  std::uint64_t most;  // passes that a series has, about
  const char* commit;  // SPARCL_COMMIT that leads there; nullptr: any
};

constexpr std::array kPlaces{
    Place{"init.met", 1, nullptr},
    Place{"broadcast.begin", 8, nullptr},
    Place{"broadcast.agreed", 8, nullptr},
    Place{"broadcast.sending", 4, nullptr},
    Place{"broadcast.receiving", 8, nullptr},
    Place{"broadcast.before_vote", 8, nullptr},
    Place{"broadcast.before_commit", 8, nullptr},
    Place{"broadcast.committed", 8, nullptr},
    Place{"allreduce.begin", 6, nullptr},
    Place{"allreduce.agreed", 6, nullptr},
    Place{"allreduce.selected", 2, nullptr},
    Place{"allreduce.reduced", 6, nullptr},
    Place{"aggregate.sent", 2, nullptr},
    Place{"aggregate.stepped", 2, nullptr},
    Place{"update.early_write", 10, "early"},
    Place{"update.staged_write", 10, "staged"},
    Place{"destroy.begin", 1, nullptr},
    Place{"destroy.departure", 1, nullptr},
};

TEST_P(Processes, KilledAtFailpoints) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  std::map<std::string, int> killed;
  run_seeds("KilledAtFailpoints", kPlaces.size(), [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xfa11));
    const Place& place = kPlaces[seed % kPlaces.size()];
    PartyPlan plan = plan_of(seed);
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    const std::uint64_t count = 1 + (random.chance(0.5) ? random.below(place.most) : 0);
    plan.failpoints[victim] = fmt::format("{}:{}:kill", place.name, count);
    if (place.commit != nullptr) plan.settings["SPARCL_COMMIT"] = place.commit;
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.set_end(victim, End::kAny);
    check.finish();
    const ProcessRecord& record = party.processes().record(victim);
    if (record.died_of(SIGKILL)) {
      ++killed[place.name];
      check.others_got_error(victim, record.ended_at_s, kKilledSeconds);
    } else {  // it does not come by so often
      check.all_succeeded(victim);
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
  if (std::getenv("SPARCL_TEST_SEED") != nullptr || testing::Test::HasFailure()) return;
  // ThreadSanitizer takes few seeds; and of several processes with one row, each may see the same
  // few places.
  if (tally.parties < static_cast<int>(kPlaces.size()) ||
      std::getenv("SPARCL_TEST_SHARD") != nullptr)
    return;
  EXPECT_GT(killed.size(), kPlaces.size() / 2) << "hardly any place kills";
}

// Each place is one that a series passes: else the row above tests nothing there.
TEST(FailpointPlaces, AreAllPassed) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  for (const Place& place : kPlaces) {
    PartyPlan plan;
    plan.seed = 2;
    plan.ranks = 2;
    plan.steps = 30;
    if (place.commit != nullptr) plan.settings["SPARCL_COMMIT"] = place.commit;
    plan.failpoints[1] = fmt::format("{}:1:kill", place.name);
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    party.finish();
    EXPECT_TRUE(party.processes().record(1).died_of(SIGKILL)) << place.name << "\n"
                                                              << party.describe();
  }
}

TEST_P(Processes, KilledAtRandomTimes) {
  run_seeds("KilledAtRandomTimes", 4, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x411));
    PartyPlan plan = plan_of(seed);
    plan.steps = 150;
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    ASSERT_TRUE(party.wait_until_met(kStartSeconds)) << party.describe();
    const double at = party.processes().now_s() + 0.2 * random.unit();
    (void)party.processes().run_until([] { return false; }, at);
    party.processes().signal(victim, SIGKILL);
    Check check(party);
    check.set_end(victim, End::kAny);
    check.finish();
    const ProcessRecord& record = party.processes().record(victim);
    if (record.died_of(SIGKILL)) check.others_got_error(victim, record.ended_at_s, kKilledSeconds);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// A rank that never comes to the meeting, or dies in it: nobody may wait for ever.
TEST_P(Processes, KilledInInit) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  run_seeds("KilledInInit", 2, [&](std::uint64_t seed) {
    PartyPlan plan = plan_of(seed);
    plan.timeout_s = 2;
    const int victim = static_cast<int>(seed % static_cast<std::uint64_t>(plan.ranks));
    plan.failpoints[victim] = "init.before_meeting:1:kill";
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.set_end(victim, End::kKilled);
    check.finish();
    for (int rank = 0; rank < plan.ranks; ++rank) {
      if (rank == victim) continue;
      const RankStory story = party.story(rank);
      EXPECT_TRUE(story.has_met) << "rank " << rank;
      Check::check_init_error(rank, story, victim,
                              party.processes().record(victim).ended_at_s + 3 * plan.timeout_s);
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// The ranks have met, and one cannot go on: the others learn of it by name, not by a time-out.
TEST_P(Processes, CannotBegin) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  run_seeds("CannotBegin", 3, [&](std::uint64_t seed) {
    PartyPlan plan = plan_of(seed);
    const int victim = static_cast<int>(seed % static_cast<std::uint64_t>(plan.ranks));
    plan.failpoints[victim] = "init.beginning:1:throw";
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const RankStory story = party.story(rank);
      EXPECT_EQ(story.init_code, rank == victim ? sparclSystemError : sparclRemoteError)
          << "rank " << rank << ": " << story.init_error;
      EXPECT_THAT(story.init_error, HasSubstr("heartbeats could not be started"))
          << "rank " << rank;
      if (rank != victim) {
        EXPECT_THAT(story.init_error,
                    HasSubstr(fmt::format("sparclCommInitRank: rank {} (host ", victim)));
      }
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// --- stopped ---

enum class Awakening { kSoon, kLate, kNever };

TEST_P(Processes, Stopped) {
  run_seeds("Stopped", 3, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x570b));
    const auto awakening = static_cast<Awakening>(seed % 3);
    const double liveness_s = by_tier(2.5, 5.0);
    const double sleeps_s = awakening == Awakening::kSoon   ? 0.4 * liveness_s
                            : awakening == Awakening::kLate ? 1.6 * liveness_s
                                                            : 60;
    PartyPlan plan = plan_of(seed);
    plan.settings["SPARCL_LIVENESS_S"] = fmt::format("{}", liveness_s);
    plan.steps = awakening == Awakening::kSoon ? 8 : 200;
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    ASSERT_TRUE(party.wait_until_met(kStartSeconds)) << party.describe();
    ProcessParty& processes = party.processes();
    (void)processes.run_until([] { return false; }, processes.now_s() + 0.05 * random.unit());
    const double stopped_at = processes.now_s();
    processes.signal(victim, SIGSTOP);
    const auto others_ended = [&] {
      for (int rank = 0; rank < plan.ranks; ++rank) {
        if (rank != victim && !processes.record(rank).ended) return false;
      }
      return true;
    };
    (void)processes.run_until(others_ended, stopped_at + sleeps_s);
    if (awakening == Awakening::kNever) {
      EXPECT_TRUE(others_ended()) << "a hang";
      processes.signal(victim, SIGKILL);
    } else {
      processes.signal(victim, SIGCONT);
    }
    Check check(party);
    check.set_end(victim, awakening == Awakening::kNever ? End::kAny : End::kClean);
    check.finish();
    if (awakening == Awakening::kSoon) {
      for (int rank = 0; rank < plan.ranks; ++rank) check.all_succeeded(rank);
    } else {
      check.others_got_error(victim, stopped_at, 3 * liveness_s);
    }
    if (awakening == Awakening::kLate && party.story(victim).last_begun < plan.steps - 1) {
      check.got_error(victim);
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// --- calls that differ ---

TEST_P(Processes, Mismatch) {
  run_seeds("Mismatch", 4, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x3155));
    PartyPlan plan = plan_of(seed);
    const int culprit = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    const int at = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.steps)));
    const StepKind kind =
        make_series(seed, plan.ranks, plan.steps)[static_cast<std::size_t>(at)].kind;
    constexpr std::array kWhats{"root", "operation", "datatype", "count"};
    std::string what = kWhats[seed % kWhats.size()];
    if (what == "root" && !has_root(kind)) what = "operation";
    if (what == "count" && kind != StepKind::kDelta) what = has_root(kind) ? "root" : "datatype";
    if (what == "datatype" && kind == StepKind::kUpdate) what = "operation";
    plan.acts[culprit] = fmt::format("{}:{}", what, at);
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const RankStory story = party.story(rank);
      EXPECT_EQ(story.steps.size(), static_cast<std::size_t>(plan.steps)) << "rank " << rank;
      for (const StepRecord& step : story.steps) {
        EXPECT_EQ(step.code, step.step == at ? sparclMismatch : sparclSuccess)
            << "rank " << rank << " step " << step.step << ": " << step.error;
        if (step.step != at) continue;
        EXPECT_THAT(step.error, HasSubstr(fmt::format("rank {} called", culprit)));
        EXPECT_THAT(step.error, HasSubstr(what == "datatype" ? "data types" : what + "s"));
      }
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// --- a rank that runs out of memory ---

// In a call, but outside its coroutine: the rank has an error, and so have the others; nothing
// aborts.
TEST_P(Processes, RunsOutOfMemoryInACall) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  run_seeds("RunsOutOfMemoryInACall", 6, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xa110));
    PartyPlan plan = plan_of(seed);
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    const char* place = seed % 2 == 0 ? "call.made" : "call.started";
    plan.failpoints[victim] =
        fmt::format("{}:{}:throw", place, 1 + random.below(static_cast<std::uint64_t>(plan.steps)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    const RankStory story = party.story(victim);
    ASSERT_NE(story.error(), nullptr) << "it ran to its end";
    EXPECT_EQ(story.error()->code, sparclSystemError);
    EXPECT_THAT(story.error()->error, HasSubstr("out of memory"));
    check.others_got_error(victim, party.processes().record(victim).ended_at_s, kKilledSeconds);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// --- ranks that leave ---

TEST_P(Processes, Leaves) {
  run_seeds("Leaves", 3, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x1ea7));
    PartyPlan plan = plan_of(seed);
    const int culprit = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    const std::uint64_t at = random.below(static_cast<std::uint64_t>(plan.steps));
    const bool destroys = seed % 2 == 0;
    plan.acts[culprit] = fmt::format("{}:{}", destroys ? "destroy" : "exit", at);
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    check.others_got_error(culprit, party.processes().record(culprit).ended_at_s,
                           destroys ? kLeftSeconds : kKilledSeconds);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// A rank that slept finds several gone at once: it names who was the first, not who ended because
// of that.
TEST_P(Processes, SurvivorsThatExit) {
  run_seeds("SurvivorsThatExit", 3, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xe817));
    PartyPlan plan = plan_of(seed);
    plan.ranks = static_cast<int>(3 + random.below(2));
    plan.settings["SPARCL_TEST_EXITS"] = "yes";
    const int culprit =
        plan.ranks - 1;  // a look at the peers in their order would find another one first
    const int late = static_cast<int>(random.below(static_cast<std::uint64_t>(culprit)));
    const std::uint64_t at = random.below(static_cast<std::uint64_t>(plan.steps));
    plan.acts[culprit] = fmt::format("exit:{}", at);
    plan.acts[late] = fmt::format("stop:{}", at);
    plan.settings["SPARCL_LIVENESS_S"] =
        "2.5";  // who waits for the sleeper alone takes it for dead
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    const auto others_ended = [&] {
      for (int rank = 0; rank < plan.ranks; ++rank) {
        if (rank != late && !party.processes().record(rank).ended) return false;
      }
      return true;
    };
    ASSERT_TRUE(party.wait_until_met(kStartSeconds)) << party.describe();
    // Who waits for the sleeper alone may have to go on waiting: for silence only those are found
    // dead who once answered a ping.
    (void)party.processes().run_until(others_ended, party.processes().now_s() + 4);
    const auto late_ended = [&] { return party.processes().record(late).ended; };
    for (const double until = party.processes().now_s() + kStartSeconds;
         party.processes().now_s() < until && !late_ended();) {
      party.processes().signal(late, SIGCONT);  // again and again: it may not be asleep yet
      (void)party.processes().run_until(late_ended, party.processes().now_s() + 0.2);
    }
    Check check(party);
    check.finish();
    check.others_got_error(culprit, party.processes().record(culprit).ended_at_s,
                           kKilledSeconds + 3 * 2.5);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

TEST_P(Processes, Aborts) {
  run_seeds("Aborts", 3, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xab047));
    PartyPlan plan = plan_of(seed);
    const int culprit = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    plan.acts[culprit] =
        fmt::format("abort:{}", random.below(static_cast<std::uint64_t>(plan.steps)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    check.others_got_error(culprit, party.processes().record(culprit).ended_at_s, kKilledSeconds);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

INSTANTIATE_TEST_SUITE_P(Ucx, Processes, testing::Values("all", "tcp"), name_of_lanes);

}  // namespace
}  // namespace sparcl::test
