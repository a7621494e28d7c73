// All bytes that a replica makes of what it holds, by itself.

#include "src/replication/held_giver.hpp"

#include <gtest/gtest.h>

#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using Outcome = HeldGiver::Outcome;

class HeldGivers : public ::testing::Test {
 protected:
  Outcome work() { return giver.work(model.view(), held, 9, now); }
  Outcome work_on() {
    Outcome outcome = work();
    for (int i = 0; i < 100 && outcome == Outcome::kMore; ++i) outcome = work();
    return outcome;
  }

  SmallModel model{3, 2'500'000};  // several steps of work
  HeldVersion held{5, model.hash()};
  PeerBudgetRef budget = std::make_shared<PeerBudget>();
  HeldGiver giver{kModelId, budget};
  double now = 1;

  void SetUp() override { EXPECT_EQ(giver.give(), nullptr); }
};

TEST_F(HeldGivers, LeadToWhatIsHeld) {
  ASSERT_EQ(work_on(), Outcome::kMade);
  EXPECT_FALSE(giver.is_wanted());
  const UpdateRef made = giver.give();
  ASSERT_NE(made, nullptr);
  EXPECT_TRUE(made->commit.is_anchor);
  EXPECT_EQ(made->commit.epoch, 9U);
  EXPECT_EQ(made->commit.model_id, kModelId);
  EXPECT_EQ(made->target(), held);
  EXPECT_TRUE(made->signatures.empty());
  EXPECT_TRUE(made->has_leaves());
}

TEST_F(HeldGivers, KeepTheBytesOnlyWhileTheyAreSent) {
  ASSERT_EQ(work_on(), Outcome::kMade);
  UpdateRef sent = giver.give();
  const std::uint64_t bytes = sent->commit.stream_bytes;
  EXPECT_EQ(budget->used(), bytes);
  giver.let_go();
  EXPECT_EQ(giver.give(), sent);
  sent = nullptr;
  giver.let_go();
  EXPECT_EQ(giver.give(), nullptr);
  EXPECT_EQ(budget->used(), 0U);
}

TEST_F(HeldGivers, BeginAnewThreeTimesIfAnotherVersionIsHeld) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(work(), Outcome::kMore) << i;
    model.step(static_cast<std::uint64_t>(i));
    held = {held.version + 1, model.hash()};
  }
  EXPECT_EQ(work(), Outcome::kGivenUp);
  EXPECT_FALSE(giver.is_wanted());
  EXPECT_EQ(giver.give(), nullptr);
  EXPECT_EQ(budget->used(), 0U);
}

TEST_F(HeldGivers, GiveTheVersionThatIsHeldAtTheEnd) {
  ASSERT_EQ(work(), Outcome::kMore);
  model.step(1);
  held = {6, model.hash()};
  ASSERT_EQ(work_on(), Outcome::kMade);
  EXPECT_EQ(giver.give()->target(), held);
}

TEST_F(HeldGivers, GiveNoVersionThatIsNotHeldAnyMore) {
  ASSERT_EQ(work_on(), Outcome::kMade);
  giver.hold(held);
  const UpdateRef sent = giver.give();
  EXPECT_NE(sent, nullptr);
  giver.hold({6, {1, 2}});
  EXPECT_EQ(giver.give(), nullptr);
}

TEST_F(HeldGivers, RestFourTimesAsLongAsItTook) {
  ASSERT_EQ(work(), Outcome::kMore);
  now = 2;
  ASSERT_EQ(work_on(), Outcome::kMade);
  giver.let_go();
  EXPECT_EQ(giver.give(), nullptr);
  now = 5.9;
  EXPECT_EQ(work(), Outcome::kGivenUp);
  EXPECT_EQ(giver.give(), nullptr);
  now = 6.1;
  EXPECT_EQ(work_on(), Outcome::kMade);
}

// Else one that always leaves before the end would take all of a core.
TEST_F(HeldGivers, RestAlsoIfNoReplicaWaitsForTheEnd) {
  ASSERT_EQ(work(), Outcome::kMore);
  now = 2;
  ASSERT_EQ(work(), Outcome::kMore);
  giver.drop();
  EXPECT_EQ(giver.give(), nullptr);
  EXPECT_EQ(work(), Outcome::kGivenUp);
}

TEST_F(HeldGivers, GiveNothingWithoutRoom) {
  budget->set_limit(1000);
  EXPECT_EQ(work(), Outcome::kGivenUp);
  EXPECT_EQ(giver.give(), nullptr);
}

TEST_F(HeldGivers, GiveNothingThatIsDamaged) {
  model.poke(77, 0x7001);
  EXPECT_EQ(work_on(), Outcome::kDamaged);
  EXPECT_EQ(giver.give(), nullptr);
}

}  // namespace
}  // namespace sparcl::replication
