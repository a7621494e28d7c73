// What a replica makes of what it holds for others, by itself.

#include "src/replication/held_giver.hpp"

#include <gtest/gtest.h>

#include "src/codec/state_hash.hpp"
#include "src/replication/staged_update.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using Outcome = HeldGiver::Outcome;

struct HeldGiverTest : ::testing::Test {
  SmallModel model{3, 6'000'000};  // two steps of work
  HeldVersion held{5, model.hash()};
  UpdateStore store{UpdateStore::Limits{}};
  HeldGiver giver{"m"};

  void SetUp() override { store.hold(held); }
  Outcome work() { return giver.work(model.view(), held, 9, store); }
  Outcome work_on() {
    Outcome outcome = work();
    for (int i = 0; i < 100 && outcome == Outcome::kMore; ++i) {
      EXPECT_TRUE(giver.wants_work());
      outcome = work();
    }
    return outcome;
  }
};

TEST_F(HeldGiverTest, AllBytesLeadToWhatIsHeld) {
  EXPECT_FALSE(giver.wants_work());
  giver.want_anchor();
  ASSERT_TRUE(giver.wants_work());
  ASSERT_EQ(work_on(), Outcome::kMade);
  EXPECT_FALSE(giver.wants_work());
  const UpdateRef anchor = store.step_from({0, {1, 2}}).update;
  ASSERT_NE(anchor, nullptr);
  EXPECT_TRUE(anchor->commit.is_anchor);
  EXPECT_EQ(anchor->commit.epoch, 9U);
  EXPECT_EQ(anchor->commit.model_id, "m");
  EXPECT_EQ(anchor->target(), held);
}

TEST_F(HeldGiverTest, NewVersionsInterruptItThreeTimesAndNoMore) {
  giver.want_anchor();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(work(), Outcome::kMore);
    model.step(static_cast<std::uint64_t>(i));
    held = {held.version + 1, model.hash()};
  }
  EXPECT_EQ(work(), Outcome::kGivenUp);
  EXPECT_FALSE(giver.wants_work());
  giver.want_anchor();  // by another one, later
  EXPECT_EQ(work_on(), Outcome::kMade);
  EXPECT_EQ(store.step_from({0, {1, 2}}).update->target(), held);
}

TEST_F(HeldGiverTest, WhatIsDamagedIsNotGiven) {
  model.poke(77, 0x7001);
  giver.want_anchor();
  EXPECT_EQ(work_on(), Outcome::kDamaged);
  EXPECT_EQ(store.step_from({0, {1, 2}}).update, nullptr);
}

TEST_F(HeldGiverTest, ARepairOfAnEarlierVersionBeginsAnewWhereALaterOneIsHeld) {
  SmallModel damaged(3, 6'000'000);
  damaged.poke(77, 0x7001);
  auto repair = std::make_shared<Repair>();
  repair->wanted = held;
  repair->held_hash = damaged.hash();
  codec::add_block_hashes(*damaged.view().map, {damaged.view().readable()}, 0, damaged.view().map->block_count(),
                          *damaged.view().kernels, repair->block_hashes);
  giver.want_repair(repair);
  ASSERT_EQ(work(), Outcome::kMore);
  model.step(1, 2000, 60'000);
  held = {6, model.hash()};
  ASSERT_EQ(work_on(), Outcome::kMade);
  ASSERT_TRUE(repair->is_over);
  ASSERT_NE(repair->update, nullptr);
  EXPECT_TRUE(repair->update->commit.is_repair());
  EXPECT_EQ(repair->update->target(), held);
  EXPECT_LT(repair->update->commit.stream_bytes, 3 * 131'072U);  // the first block, and the bias
  // Another one waits until this one has been sent.
  giver.want_repair(std::make_shared<Repair>());
  EXPECT_FALSE(giver.wants_work());
  repair->update = nullptr;
  EXPECT_TRUE(giver.wants_work());
  EXPECT_EQ(work(), Outcome::kMore);  // nobody has it any more
  EXPECT_FALSE(giver.wants_work());
}

}  // namespace
}  // namespace sparcl::replication
