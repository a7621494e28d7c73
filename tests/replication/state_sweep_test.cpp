// A replica looks at all that it holds now and then.

#include "src/replication/state_sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "src/codec/state_hash.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;

SubscriberOptions sweeping(double seconds) {
  SubscriberOptions options = replica_options();
  options.sweep_s = seconds;
  return options;
}

TEST(StateSweep, DamagedTensorsAreNamedAndMadeGood) {
  SmallModel source, copy(7);
  const auto publisher = open_publisher(source);
  const auto replica = open_replica(copy, publisher->address(), sweeping(0.05));
  source.step(1);
  ASSERT_TRUE(publisher->publish(1).ok());
  ASSERT_TRUE(replica->next(20).ok());
  for (const std::uint64_t version : {2, 3}) {
    copy.poke(199'999, static_cast<std::uint16_t>(0x7000 + version));
    const auto swap = replica->next(20);
    EXPECT_EQ(swap.status().code(), Code::kCorrupt);
    EXPECT_THAT(std::string(swap.status().message()), HasSubstr("do not hold version"));
    EXPECT_EQ(replica->versions().held, 0U);
    bool by_repair = false;
    while (replica->versions().held < version - 1) {
      const auto healed = replica->next(20);
      ASSERT_TRUE(healed.ok()) << healed.status().message();
      by_repair = by_repair || healed->by_repair;
      EXPECT_FALSE(healed->by_anchor);
    }
    EXPECT_TRUE(by_repair);
    EXPECT_EQ(copy.hash(), source.hash());
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
    while (replica->versions().held < version) {
      const auto next = replica->next(20);
      ASSERT_TRUE(next.ok()) << next.status().message();
      EXPECT_FALSE(next->by_anchor);
    }
    EXPECT_EQ(copy.hash(), source.hash());
  }
}

TEST(StateSweep, FindsNothingWhereNothingIsWrong) {
  SmallModel source(0, 3'000'000), copy(7, 3'000'000);
  const auto publisher = open_publisher(source);
  const auto replica = open_replica(copy, publisher->address(), sweeping(1e-4));
  for (std::uint64_t version = 1; version <= 60; ++version) {
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
    while (replica->versions().held < version) {
      const auto swap = replica->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
    }
    if (version % 10 == 0) {
      EXPECT_EQ(replica->next(0.05).status().code(), Code::kTimeout);
    }
    ASSERT_EQ(copy.hash(), source.hash());
  }
}

TEST(StateSweep, LooksAtNothingBeforeItIsDueOrWhereItIsOff) {
  for (const double period : {300.0, 0.0}) {
    SmallModel source, copy(7);
    const auto publisher = open_publisher(source);
    const auto replica = open_replica(copy, publisher->address(), sweeping(period));
    ASSERT_TRUE(publisher->publish(1).ok());
    ASSERT_TRUE(replica->next(20).ok());
    copy.poke(5, 0x7001);
    EXPECT_EQ(replica->next(1).status().code(), Code::kTimeout) << period;
  }
}

// Driven by hand, between updates of its own.
class SweepAcrossVersions : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBlocks = 200;  // more than three steps
  static constexpr std::uint64_t kElements = kBlocks * codec::kBlockElements;

  SweepAcrossVersions() : held_{1, model_.hash()} {}

  // Another version: some elements of each block but those that tests damage, at most so far from
  // each other.
  void change(std::uint32_t gap = 9000) {
    codec::ChangeLog log;
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      std::vector<std::uint16_t> positions, values;
      for (std::uint32_t i = random_() % gap; i < codec::kBlockElements - 1;
           i += 1 + random_() % gap) {
        positions.push_back(static_cast<std::uint16_t>(i));
        values.push_back(model_.at(block * codec::kBlockElements + i));
        model_.poke(block * codec::kBlockElements + i, static_cast<std::uint16_t>(random_()));
        changed_hash_ = true;
      }
      log.add(block, sizeof(std::uint16_t), positions, std::as_bytes(std::span(values)));
    }
    log.finish();
    rollback_.begin(held_, 1);
    for (int i = 0; i < updates_; ++i) rollback_.add(i == 0 ? log : codec::ChangeLog());
    held_ = {held_.version + 1, model_.hash() - damage_};
  }
  // Of the last element of a block; versions are published as if it were not.
  void damage(std::uint64_t block) {
    const Hash128 before = model_.hash();
    model_.poke((block + 1) * codec::kBlockElements - 1, 0x1234);
    damage_ = damage_ + model_.hash() - before;
  }
  Status step() { return sweep_.step(model_.view(), held_, rollback_, now_ += 0.01); }
  // Steps until a pass is over, with a version after every `interval` of them.
  Status pass(int interval, int max_steps = 100) {
    for (int i = 1; i <= max_steps; ++i) {
      const Status status = step();
      if (!status.ok() || sweep_.due() > now_ + 1) {
        steps_ = i;
        return status;
      }
      if (i % interval == 0) change();
    }
    return Status(Code::kTimeout, "the pass does not end");
  }

  SmallModel model_{0, kElements};
  std::mt19937_64 random_{1};
  HeldVersion held_;
  Rollback rollback_{16 * kElements};
  StateSweep sweep_{10};
  Hash128 damage_;
  double now_ = 100;
  int updates_ = 1;
  int steps_ = 0;
  bool changed_hash_ = false;
};

TEST_F(SweepAcrossVersions, EndsAlthoughVersionsComeFaster) {
  (void)sweep_.step(model_.view(), held_, rollback_, now_);  // the first period begins
  now_ += 10;
  for (const int interval : {2, 3, 100}) {
    EXPECT_TRUE(pass(interval).ok()) << interval;
    EXPECT_TRUE(sweep_.block_hashes().empty());
  }
  EXPECT_TRUE(changed_hash_);
}

TEST_F(SweepAcrossVersions, FindsDamageAndNamesItsBlocks) {
  (void)sweep_.step(model_.view(), held_, rollback_, now_);
  damage(3);
  damage(150);
  EXPECT_EQ(pass(2).code(), Code::kCorrupt);
  EXPECT_EQ(sweep_.found(), model_.hash());
  EXPECT_EQ(sweep_.wanted(), held_);
  const ReplicatedState state = model_.view();
  std::vector<Hash128> expected;
  codec::add_block_hashes(*state.map, {state.readable()}, 0, state.map->block_count(),
                          *state.kernels, expected);
  EXPECT_EQ(sweep_.block_hashes(), expected);
}

// Of a version that changes so much that it is followed by steps.
TEST_F(SweepAcrossVersions, FollowsByStepsAndNotWhereTheReplicaGoesBack) {
  (void)sweep_.step(model_.view(), held_, rollback_, now_);
  for (const bool goes_back : {false, true}) {
    now_ += 10;
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(step().ok());  // 128 blocks are seen
    const HeldVersion before = held_;
    change(10);
    ASSERT_TRUE(step().ok());  // 128 Ki changes of some 800 Ki
    if (goes_back) {
      ASSERT_TRUE(rollback_.go(model_.view(), held_).ok());
      held_ = before;
      ASSERT_EQ(held_.hash, model_.hash());
      rollback_.lose("a test wants it");
    }
    EXPECT_TRUE(pass(100).ok());
    EXPECT_GT(steps_, goes_back ? 3 : 6);
  }
}

TEST_F(SweepAcrossVersions, BeginsAnewWhereYetAnotherVersionIsHeldMeanwhile) {
  (void)sweep_.step(model_.view(), held_, rollback_, now_);
  now_ += 10;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(step().ok());
  for (int version = 0; version < 3; ++version) {
    change(10);
    ASSERT_TRUE(step().ok());
  }
  EXPECT_TRUE(pass(100).ok());
}

TEST_F(SweepAcrossVersions, BeginsAnewWhereWhatHasChangedIsNotKnown) {
  (void)sweep_.step(model_.view(), held_, rollback_, now_);
  updates_ = 2;
  EXPECT_EQ(pass(2, 20).code(), Code::kTimeout);
  EXPECT_TRUE(pass(100).ok());
  rollback_.lose("a test wants it");
  EXPECT_TRUE(pass(100).ok());
}

}  // namespace
}  // namespace sparcl::replication
