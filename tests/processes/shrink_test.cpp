// What sparclCommShrink owes: all survivors get one communicator and go on with it, whoever dies
// when, in the shrink itself too.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "src/base/seeded_random.hpp"
#include "tests/processes/party_check.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::test {
namespace {

class Shrink : public Processes {
 protected:
  PartyPlan plan_of(std::uint64_t seed) const {
    PartyPlan plan = Processes::plan_of(seed);
    plan.ranks = static_cast<int>(2 + seed % 5);
    plan.shrinks = true;
    return plan;
  }
};

constexpr std::array kFirstPlaces{
    "broadcast.begin",  "broadcast.agreed",   "broadcast.before_vote", "broadcast.committed",
    "allreduce.agreed", "allreduce.selected", "allreduce.reduced"};
constexpr std::array kSecondPlaces{"shrink.voted", "shrink.decided",   "shrink.told",
                                   "shrink.met",   "shrink.connected", "broadcast.agreed"};

TEST_P(Shrink, AfterADeath) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  int shrunk = 0;
  run_seeds("Shrink.AfterADeath", 5, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x5412));
    PartyPlan plan = plan_of(seed);
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    plan.failpoints[victim] = fmt::format(
        "{}:{}:kill", kFirstPlaces[random.below(kFirstPlaces.size())], 1 + random.below(4));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.set_end(victim, End::kAny);
    check.finish();
    check.survivors_went_on();
    for (int rank = 0; rank < plan.ranks; ++rank) shrunk += !party.story(rank).shrinks.empty();
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
  if (std::getenv("SPARCL_TEST_SEED") != nullptr) return;
  EXPECT_GT(shrunk, 0) << "nobody shrank";
}

// Who has met the others has a communicator: a death in the rest of the start is the first call's
// failure.
TEST_P(Shrink, AfterADeathInTheStart) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  run_seeds("Shrink.AfterADeathInTheStart", 4, [&](std::uint64_t seed) {
    PartyPlan plan = plan_of(seed);
    const int victim = static_cast<int>(seed % static_cast<std::uint64_t>(plan.ranks));
    plan.failpoints[victim] = "init.met:1:kill";
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.set_end(victim, End::kKilled);
    check.finish();
    for (int rank = 0; rank < plan.ranks; ++rank) {
      if (rank == victim) continue;
      const RankStory story = party.story(rank);
      EXPECT_EQ(story.init_code, sparclSuccess) << "rank " << rank << ": " << story.init_error;
      EXPECT_EQ(story.shrinks.size(), 1U) << "rank " << rank;
      EXPECT_THAT(story.failed_ranks, testing::ElementsAre(victim)) << "rank " << rank;
    }
    check.survivors_went_on();
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// The second one dies in the shrink that the first one's death led to, or after it.
TEST_P(Shrink, AfterADeathInIt) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  std::set<std::string> met;
  run_seeds("Shrink.AfterADeathInIt", 12, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x5413));
    PartyPlan plan = plan_of(seed);
    plan.ranks = std::max(plan.ranks, 3);
    const auto ranks = static_cast<std::uint64_t>(plan.ranks);
    const int first = static_cast<int>(random.below(ranks));
    const int second = (first + 1 + static_cast<int>(random.below(ranks - 1))) % plan.ranks;
    const char* place = kSecondPlaces[seed % kSecondPlaces.size()];
    plan.failpoints[first] = fmt::format(
        "{}:{}:kill", kFirstPlaces[random.below(kFirstPlaces.size())], 1 + random.below(3));
    const bool is_later = std::string_view(place) == "broadcast.agreed";
    plan.failpoints[second] = fmt::format("{}:{}:kill", place, is_later ? 10 : 1 + random.below(2));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.set_end(first, End::kAny);
    check.set_end(second, End::kAny);
    check.finish();
    check.survivors_went_on();
    if (party.processes().record(second).died_of(SIGKILL)) met.insert(place);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
  if (std::getenv("SPARCL_TEST_SEED") != nullptr || testing::Test::HasFailure()) return;
  // ThreadSanitizer takes few seeds; and of several processes with one row, each may see the same
  // few places.
  if (tally.parties < static_cast<int>(kSecondPlaces.size()) ||
      std::getenv("SPARCL_TEST_SHARD") != nullptr)
    return;
  EXPECT_GE(met.size(), kSecondPlaces.size() / 2) << "hardly any place kills";
}

// One runs out of memory in the shrink: it refuses, and nobody gets a communicator, nor waits for a
// time-out.
TEST_P(Shrink, OfOneWithoutMemoryIsRefusedByAll) {
  if (SPARCL_TEST_HAS_FAILPOINTS == 0) GTEST_SKIP() << "built with SPARCL_FAILPOINTS=OFF";
  constexpr std::array kPlaces{"shrink.meeting", "shrink.met", "shrink.connected"};
  run_seeds("Shrink.OfOneWithoutMemoryIsRefusedByAll", kPlaces.size(), [&](std::uint64_t seed) {
    PartyPlan plan = plan_of(seed);
    plan.ranks = 4;
    plan.acts[0] = "abort:2";
    plan.failpoints[2] = fmt::format("{}:1:throw", kPlaces[seed % kPlaces.size()]);
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    for (int rank = 0; rank < plan.ranks; ++rank) {
      const RankStory story = party.story(rank);
      ASSERT_EQ(story.shrinks.size(), 1U) << "rank " << rank;
      const ShrinkRecord& shrink = story.shrinks.front();
      EXPECT_EQ(shrink.code, rank == 2 ? sparclOutOfMemory : sparclRemoteError)
          << "rank " << rank << ": " << shrink.error;
      EXPECT_THAT(shrink.error, testing::HasSubstr("sparclCommShrink: ")) << "rank " << rank;
    }
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// A rank that is stopped for long is given up, and goes on later, while the others do or after
// their end: never with a communicator of its own. Of two ranks the lower one goes on, also if it
// was the stopped one: the other cannot know whether it would be alone.
TEST_P(Shrink, AfterAStop) {
  run_seeds("Shrink.AfterAStop", 3, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x5415));
    PartyPlan plan = plan_of(seed);
    const double liveness_s = by_tier(1.0, 2.0);
    plan.settings["SPARCL_LIVENESS_S"] = fmt::format("{}", liveness_s);
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    plan.acts[victim] =
        fmt::format("stop:{}", random.below(static_cast<std::uint64_t>(plan.steps)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    const bool awaits_ends = random.below(2) == 0;
    const auto others_are_through = [&] {
      for (int rank = 0; rank < plan.ranks; ++rank) {
        const RankStory story = party.story(rank);
        if (rank != victim &&
            (awaits_ends ? !party.processes().record(rank).ended : story.shrinks.empty()))
          return false;
      }
      return true;
    };
    EXPECT_TRUE(party.processes().run_until(others_are_through, 60)) << "a hang";
    party.processes().signal(victim, SIGCONT);
    Check check(party);
    check.finish();
    check.one_part_went_on(victim);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// One rank alone waits for another that is stopped, and gives it up; it goes on, and only then the
// rest come to the call, to whom both answer. Each has its error without waiting for a time-out,
// and one part goes on at most.
TEST_P(Shrink, AfterAStopThatOneSaw) {
  int shrunk = 0;
  run_seeds("Shrink.AfterAStopThatOneSaw", 2, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x5416));
    PartyPlan plan = plan_of(seed);
    plan.ranks = static_cast<int>(3 + seed % 3);
    plan.settings["SPARCL_LIVENESS_S"] = fmt::format("{}", by_tier(1.0, 2.0));
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    const int witness =
        (victim + 1) % plan.ranks;  // calls begin with a word of each rank to the next
    const std::uint64_t at = random.below(static_cast<std::uint64_t>(plan.steps));
    for (int rank = 0; rank < plan.ranks; ++rank) {
      if (rank != witness)
        plan.acts[rank] = fmt::format("{}:{}", rank == victim ? "stop" : "hold", at);
    }
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    ProcessParty& processes = party.processes();
    EXPECT_TRUE(processes.run_until([&] { return party.story(witness).error() != nullptr; }, 30))
        << "a hang";
    processes.signal(victim, SIGCONT);
    (void)processes.run_until([] { return false; }, processes.now_s() + 0.5 * random.unit());
    for (int rank = 0; rank < plan.ranks; ++rank) {
      if (rank != witness && rank != victim) processes.signal(rank, SIGUSR2);
    }
    Check check(party);
    check.finish();
    shrunk += check.check_that_one_part_went_on();
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
  if (std::getenv("SPARCL_TEST_SEED") != nullptr || testing::Test::HasFailure()) return;
  // Of three nobody may go on, and a process with a part of the seeds may have such alone.
  if (tally.parties < 2 || std::getenv("SPARCL_TEST_SHARD") != nullptr) return;
  EXPECT_GT(shrunk, 0) << "nobody shrank";
}

// Nobody is dead: the one who gave up goes on with the others.
TEST_P(Shrink, AfterAnAbort) {
  run_seeds("Shrink.AfterAnAbort", 2, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0x5414));
    PartyPlan plan = plan_of(seed);
    const int culprit = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    plan.acts[culprit] =
        fmt::format("abort:{}", random.below(static_cast<std::uint64_t>(plan.steps)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    Check check(party);
    check.finish();
    check.survivors_went_on();
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

INSTANTIATE_TEST_SUITE_P(Ucx, Shrink, testing::Values("all", "tcp"), name_of_lanes);

}  // namespace
}  // namespace sparcl::test
