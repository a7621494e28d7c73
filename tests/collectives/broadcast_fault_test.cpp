// What a broadcast owes its callers when things go wrong: a named error in time, and each rank
// wholly old or wholly new. A failing seed is replayed by SPARCL_TEST_SEED=<seed>.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "collectives/broadcast/dense_choice.hpp"
#include "tests/support/tier.hpp"
#include "update_world.hpp"

namespace sparcl::collectives {
namespace {

using test::UpdateWorld;

constexpr double kTimeout = 20;  // virtual seconds

struct Tally {
  int runs = 0, succeeded = 0, agreed = 0, poisoned = 0;
};

bool poisons(Code code) {
  return code == Code::kTimeout || code == Code::kRemoteError || code == Code::kSystemError;
}

class FaultRun {
 public:
  FaultRun(std::uint64_t seed, std::span<const transport::Fault> allowed, bool announce_death)
      : random_(seed * 7919), seed_(seed) {
    static constexpr int kRanks[] = {2, 3, 4, 5, 7, 8};
    ranks_ = kRanks[random_.below(std::size(kRanks))];
    root_ = static_cast<int>(random_.below(static_cast<std::uint64_t>(ranks_)));
    plan_ = transport::FaultPlan::random(seed, ranks_, 24, allowed);
    harmless_ = true;
    for (const transport::FaultRule& rule : plan_.rules)
      harmless_ = harmless_ && row_of(rule.fault).harmless;
    options_.timeout_s = kTimeout;
    options_.announce_death = announce_death;
    options_.faults = &plan_;
  }

  void run(Tally& tally) {
    SCOPED_TRACE(testing::Message() << "SPARCL_TEST_SEED=" << seed_ << ", " << ranks_
                                    << " ranks, root " << root_ << ", " << plan_.describe());
    UpdateWorld world({{DataType::kFloat32, 45'000}, {DataType::kBfloat16, 3'000}}, ranks_, seed_,
                      options_);
    world.writing = random_.chance(0.5) ? codec::Writing::kEarly : codec::Writing::kStaged;
    const auto rows = broadcast::fanout_table();
    const std::size_t picked = random_.below(rows.size() + 2);
    const char* row = picked < rows.size() ? rows[picked].name : broadcast::kDenseName;
    for (CommContext& context : world.contexts) {
      context.broadcast_algorithm = row;
      context.fragment_bytes = broadcast::kMinFragmentBytes;
    }
    world.change(random_.chance(0.5) ? 0.02 : 0.9);  // one fragment, or several
    const transport::SimOutcome outcome = world.broadcast(root_);
    ASSERT_TRUE(outcome.ok()) << outcome.report;
    EXPECT_LT(outcome.seconds, 4 * kTimeout);
    check(world, tally);
  }

 private:
  void check(UpdateWorld& world, Tally& tally) {
    bool all_healthy = true;
    std::map<Code, int> codes;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (world.party.is_killed(rank)) continue;
      const Status& result = world.party.result(rank);
      ++codes[result.code()];
      all_healthy = all_healthy && world.party.engine(rank).health().ok();
      expect_whole(world, rank, result);
    }
    if (harmless_) {
      EXPECT_EQ(codes.size(), 1u);
      EXPECT_EQ(codes.begin()->first, Code::kSuccess);
    }
    EXPECT_TRUE(!all_healthy || codes.size() <= 1) << "an agreed result differs between ranks";
    ++tally.runs;
    tally.succeeded += codes.size() == 1 && codes.contains(Code::kSuccess);
    tally.agreed += all_healthy && !codes.contains(Code::kSuccess);
    tally.poisoned += !all_healthy;
  }

  void expect_whole(UpdateWorld& world, int rank, const Status& result) {
    const auto r = static_cast<std::size_t>(rank);
    const bool applied = world.reports[r].applied;
    EXPECT_TRUE(result.ok() ? applied : !result.message().empty()) << result.message();
    EXPECT_NE(result.code(), Code::kInternalError) << result.message();
    if (poisons(result.code())) {
      EXPECT_NE(result.message().find("rank "), std::string::npos) << result.message();
    } else if (!result.ok()) {
      EXPECT_EQ(result.code(), Code::kCorrupt) << result.message();
      EXPECT_FALSE(applied);
    }
    if (rank == root_) return;  // its array is the new state from the start
    EXPECT_TRUE(world.held[r] == (applied ? world.new_state : world.old_state))
        << "rank " << rank << ": neither old nor new";
  }

  SeededRandom random_;
  std::uint64_t seed_;
  int ranks_ = 0;
  int root_ = 0;
  bool harmless_ = false;
  transport::FaultPlan plan_;
  test::SimOptions options_;
};

Tally run_seeds(std::span<const transport::Fault> allowed, bool announce_death,
                std::uint64_t quick) {
  setenv("SPARCL_DEBUG", "off", 0);
  Tally tally;
  if (const char* only = std::getenv("SPARCL_TEST_SEED"); only != nullptr) {
    FaultRun(std::strtoull(only, nullptr, 10), allowed, announce_death).run(tally);
    return tally;
  }
  const char* wanted = std::getenv("SPARCL_TEST_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10)
                                                : test::by_tier<std::uint64_t>(quick, quick * 50);
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    FaultRun(seed, allowed, announce_death).run(tally);
  }
  std::printf("%d runs: %d succeeded, %d ended in an agreed error, %d poisoned\n", tally.runs,
              tally.succeeded, tally.agreed, tally.poisoned);
  return tally;
}

TEST(BroadcastFaults, KilledRanksThatAreKnownToBeDead) {
  constexpr transport::Fault kFaults[] = {transport::Fault::kKill};
  EXPECT_GT(run_seeds(kFaults, true, 500).poisoned, 0);
}

TEST(BroadcastFaults, KilledRanksThatAreOnlySilent) {
  constexpr transport::Fault kFaults[] = {transport::Fault::kKill};
  EXPECT_GT(run_seeds(kFaults, false, 500).poisoned, 0);
}

TEST(BroadcastFaults, LateAndReorderedMessagesAndShortStopsChangeNothing) {
  constexpr transport::Fault kFaults[] = {transport::Fault::kDelay, transport::Fault::kReorder,
                                          transport::Fault::kSlow};
  const Tally tally = run_seeds(kFaults, true, 300);
  EXPECT_EQ(tally.succeeded, tally.runs);
}

TEST(BroadcastFaults, DamagedMessages) {
  constexpr transport::Fault kFaults[] = {transport::Fault::kCorrupt, transport::Fault::kTruncate,
                                          transport::Fault::kDuplicate};
  const Tally tally = run_seeds(kFaults, true, 500);
  EXPECT_GT(tally.agreed, 0);
}

TEST(BroadcastFaults, LostMessagesAndStoppedRanks) {
  constexpr transport::Fault kFaults[] = {transport::Fault::kDrop, transport::Fault::kStop};
  run_seeds(kFaults, true, 300);
}

TEST(BroadcastFaults, CutLinks) {
  constexpr transport::Fault kFaults[] = {transport::Fault::kCut};
  EXPECT_GT(run_seeds(kFaults, true, 300).poisoned, 0);
}

TEST(BroadcastFaults, HalfOpenLinks) {
  constexpr transport::Fault kFaults[] = {transport::Fault::kHalfOpen};
  EXPECT_GT(run_seeds(kFaults, true, 300).poisoned, 0);
}

TEST(BroadcastFaults, EverythingAtOnce) {
  std::vector<transport::Fault> faults;
  for (const transport::FaultRow& row : transport::fault_rows()) faults.push_back(row.fault);
  run_seeds(faults, true, 500);
  run_seeds(faults, false, 500);
}

}  // namespace
}  // namespace sparcl::collectives
