// What a collective owes its callers when a cable is cut: the ranks are in network namespaces,
// which bench/hosts/hosts joins.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

#include "src/base/seeded_random.hpp"
#include "tests/processes/party_check.hpp"
#include "tests/support/tier.hpp"
#include "tests/support/virtual_hosts.hpp"

namespace sparcl::test {
namespace {

constexpr int kHosts = 4;

class Cut : public Processes {
 protected:
  static void SetUpTestSuite() { hosts_ = std::make_unique<VirtualHosts>(kHosts); }
  static void TearDownTestSuite() { hosts_ = nullptr; }
  void SetUp() override {
    if (!hosts_->are_up())
      GTEST_SKIP() << "no network namespaces here (the reason is on standard error)";
  }

  PartyPlan plan_of(std::uint64_t seed) const {
    PartyPlan plan = Processes::plan_of(seed);
    plan.steps = 2'000;
    plan.settings["SPARCL_LIVENESS_S"] = fmt::format("{}", liveness_seconds());
    for (int rank = 0; rank < plan.ranks; ++rank)
      plan.namespaces.push_back(VirtualHosts::name(rank));
    return plan;
  }

  static double liveness_seconds() { return by_tier(2.5, 5.0); }
  static bool cut(int rank) { return VirtualHosts::cut(rank); }
  static bool mend(int rank) { return VirtualHosts::mend(rank); }

 private:
  static inline std::unique_ptr<VirtualHosts> hosts_;
};

// Both sides of the cut learn of it, by name.
TEST_P(Cut, CutForGood) {
  run_seeds("CutForGood", 1, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xc07));
    const PartyPlan plan = plan_of(seed);
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    ASSERT_TRUE(party.wait_until_met(kStartSeconds)) << party.describe();
    (void)party.processes().run_until([] { return false; },
                                      party.processes().now_s() + 0.1 * random.unit());
    const double cut_at = party.processes().now_s();
    ASSERT_TRUE(cut(victim));
    Check check(party);
    check.finish();
    ASSERT_TRUE(mend(victim));
    check.others_got_error(victim, cut_at, 3 * liveness_seconds());
    if (party.story(victim).last_begun < plan.steps - 1) check.got_error(victim);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// One rank's cable is cut: it is given up, and gives the others up. Never do both parts go on.
TEST_P(Cut, ShrinkAfterACut) {
  run_seeds("ShrinkAfterACut", 2, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xc09));
    PartyPlan plan = plan_of(seed);
    plan.steps = 100;
    plan.shrinks = true;
    plan.settings["SPARCL_LIVENESS_S"] = fmt::format("{}", 2);
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    plan.acts[(victim + 1) % plan.ranks] = "late:50";
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    ASSERT_TRUE(party.wait_until_met(kStartSeconds)) << party.describe();
    ASSERT_TRUE(cut(victim));
    Check check(party);
    check.finish();
    ASSERT_TRUE(mend(victim));
    check.one_part_went_on(victim);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// The rank whose cable was cut computed all the while, and calls when the cable is there again and
// the others have gone on without it: it hears of that, although what they had in common is gone
// and each word of that time was lost.
TEST_P(Cut, ShrinkBesideAComputingRank) {
  run_seeds("ShrinkBesideAComputingRank", 1, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xc0a));
    PartyPlan plan = plan_of(seed);
    plan.steps = 8;
    plan.shrinks = true;
    plan.settings["SPARCL_LIVENESS_S"] = fmt::format("{}", 2);
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    for (int rank = 0; rank < plan.ranks; ++rank)
      plan.acts[rank] = fmt::format("{}:0", rank == victim ? "hold" : "rest");
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    ProcessParty& processes = party.processes();
    ASSERT_TRUE(party.wait_until_met(kStartSeconds)) << party.describe();
    ASSERT_TRUE(cut(victim));
    const auto others_have_shrunk = [&] {
      for (int rank = 0; rank < plan.ranks; ++rank) {
        if (rank != victim && party.story(rank).shrinks.empty()) return false;
      }
      return true;
    };
    EXPECT_TRUE(processes.run_until(others_have_shrunk, 60)) << "a hang";
    ASSERT_TRUE(mend(victim));
    processes.signal(victim, SIGUSR2);
    const auto victim_is_through = [&] { return processes.record(victim).ended; };
    EXPECT_TRUE(processes.run_until(victim_is_through, processes.now_s() + 30)) << "a hang";
    for (int rank = 0; rank < plan.ranks; ++rank) {
      if (rank != victim) processes.signal(rank, SIGUSR2);
    }
    Check check(party);
    check.finish();
    check.one_part_went_on(victim);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

// A cable that is plugged in again in time costs nothing but time.
TEST_P(Cut, CutForAWhile) {
  run_seeds("CutForAWhile", 1, [&](std::uint64_t seed) {
    SeededRandom random(mix64(seed ^ 0xc08));
    PartyPlan plan = plan_of(seed);
    plan.steps = 150;  // some seconds where nothing else runs, and not 90 s on a busy machine
    const int victim = static_cast<int>(random.below(static_cast<std::uint64_t>(plan.ranks)));
    RankParty party(plan);
    ASSERT_TRUE(party.start()) << party.trouble();
    ASSERT_TRUE(party.wait_until_met(kStartSeconds)) << party.describe();
    ProcessParty& processes = party.processes();
    (void)processes.run_until([] { return false; }, processes.now_s() + 0.1 * random.unit());
    ASSERT_TRUE(cut(victim));
    (void)processes.run_until([] { return false; },
                              processes.now_s() + 0.3 * liveness_seconds() * random.unit());
    ASSERT_TRUE(mend(victim));
    Check check(party);
    check.finish();
    for (int rank = 0; rank < plan.ranks; ++rank) check.all_succeeded(rank);
    if (testing::Test::HasFailure()) ADD_FAILURE() << party.describe();
  });
}

INSTANTIATE_TEST_SUITE_P(Ucx, Cut, testing::Values("tcp"), name_of_lanes);

}  // namespace
}  // namespace sparcl::test
