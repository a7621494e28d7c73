// The phases of the bytes that a replica holds, of its pin, and of next().

#include <gtest/gtest.h>

#include "tests/replication/driven_replica.hpp"

namespace sparcl::replication {
namespace {

template <class Phase>
bool holds(const DrivenReplica& replica) {
  return std::holds_alternative<Phase>(replica.machine->bytes());
}

Commit repair(const HeldVersion& to, const Hash128& of) {
  Commit made = DrivenReplica::commit(1, to.version);
  made.base_version = 0;
  made.base_hash = of;
  return made;
}

TEST(ReplicaBytes, AnAnchorMakesAVersion) {
  DrivenReplica replica;
  EXPECT_TRUE(holds<replica_phase::Brought>(replica));
  EXPECT_FALSE(replica.machine->may_sweep());
  replica.publish();
  EXPECT_TRUE(holds<replica_phase::Published>(replica));
  EXPECT_EQ(replica.machine->held(), state_of(1));
  EXPECT_TRUE(replica.machine->may_sweep());
  replica.machine->on_turn();
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kAck}}));
}

TEST(ReplicaBytes, NothingLeadsOnFromBytesThatNobodyVouchesFor) {
  DrivenReplica replica;
  (void)replica.welcome(kPublisher);
  replica.forget();
  ASSERT_TRUE(replica.offer(kPublisher, DrivenReplica::commit(1, 2)).ok());
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kNack}}));
}

TEST(ReplicaBytes, EqualBytesAreVouchedFor) {
  DrivenReplica replica;
  (void)replica.welcome(kPublisher);
  replica.forget();
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kIdentity, replica.identity(1)).ok());
  ASSERT_NE(replica.machine->to_compare(1), nullptr);
  replica.machine->on_digest(Digest256{}, 1);
  EXPECT_TRUE(holds<replica_phase::Vouched>(replica));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kAck}}));
  EXPECT_TRUE(replica.offer(kPublisher, DrivenReplica::commit(1, 2)).ok());
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kRequest}}));
}

TEST(ReplicaBytes, AnIdentityOfAnotherModelOrEpochIsRefused) {
  DrivenReplica replica;
  (void)replica.welcome(kPublisher);
  Identity other = replica.identity(1);
  other.epoch += 1;
  EXPECT_EQ(replica.hear(kPublisher, MessageType::kIdentity, other).code(), Code::kMismatch);
  other = replica.identity(1);
  other.model_id = "x";
  EXPECT_EQ(replica.hear(kPublisher, MessageType::kIdentity, other).code(), Code::kMismatch);
  EXPECT_FALSE(replica.machine->may_compare());
}

TEST(ReplicaBytes, OtherBytesThanTheIdentitysAreNotCompared) {
  DrivenReplica replica;
  (void)replica.welcome(kPublisher);
  replica.forget();
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kIdentity, replica.identity(2)).ok());
  EXPECT_EQ(replica.machine->to_compare(1), nullptr);
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kNack}}));
}

// It came with a copy of version 2, but for some blocks, which are asked for.
class BroughtCopy : public testing::Test {
 protected:
  BroughtCopy() {
    (void)replica.welcome(kPublisher);
    (void)replica.hear(kPublisher, MessageType::kIdentity, replica.identity(2));
    replica.forget();
    EXPECT_NE(replica.machine->to_compare(1), nullptr);
    replica.machine->on_digest(Digest256{}, 1);
    EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kBlocks}}));
  }
  const replica_phase::Brought& brought() const {
    return std::get<replica_phase::Brought>(replica.machine->bytes());
  }
  DrivenReplica replica{true};
};

TEST_F(BroughtCopy, IsRepairedIfTheBytesThenHaveTheDigest) {
  EXPECT_TRUE(brought().asked.has_value());
  replica.stage(repair(state_of(2), state_of(1).hash));
  ASSERT_EQ(replica.machine->staged(), 1U);
  const replica_phase::Applying& applying = replica.machine->begin_applying();
  ASSERT_TRUE(applying.expected.has_value());
  EXPECT_EQ(applying.expected->with.version, state_of(2));
  (void)replica.machine->on_applied(0);
  EXPECT_TRUE(holds<replica_phase::Published>(replica));
}

TEST_F(BroughtCopy, ARepairOfAnotherVersionIsRefused) {
  replica.stage(repair(state_of(3), state_of(1).hash));
  EXPECT_EQ(replica.machine->staged(), 0U);
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kNack}}));
}

TEST_F(BroughtCopy, AsksForNoBlocksAgainAfterARepairThatDoesNotLeadThere) {
  replica.stage(repair(state_of(2), state_of(1).hash));
  (void)replica.machine->begin_applying();
  replica.machine->on_not_applied(Status(Code::kCorrupt, "why"), true, 1);
  EXPECT_FALSE(brought().may_ask_for_blocks);
  EXPECT_EQ(replica.machine->held().version, 0U);
  EXPECT_EQ(replica.machine->held().hash, state_of(2).hash);
  EXPECT_TRUE(replica.machine->must_begin_anew());
  EXPECT_FALSE(replica.machine->hello(kPublisher, {}).holds_copy);
}

TEST_F(BroughtCopy, ARepairWithoutMemoryIsTriedAgain) {
  replica.stage(repair(state_of(2), state_of(1).hash));
  (void)replica.machine->begin_applying();
  replica.machine->on_applied_nothing();
  EXPECT_EQ(replica.machine->staged(), 1U);
  EXPECT_TRUE(replica.machine->begin_applying().expected.has_value());
}

TEST_F(BroughtCopy, AnAnchorIsTakenToo) {
  replica.stage(DrivenReplica::commit(0, 2));
  replica.apply();
  EXPECT_TRUE(holds<replica_phase::Published>(replica));
}

// --- damage ---

TEST(ReplicaBytes, DamageIsToldToThePublisherAndRepaired) {
  DrivenReplica replica;
  replica.damage();
  EXPECT_TRUE(holds<replica_phase::Damaged>(replica));
  EXPECT_EQ(replica.machine->held(), (HeldVersion{0, {9, 9}}));
  EXPECT_TRUE(replica.machine->has_reason());
  EXPECT_EQ(replica.machine->take_damage_report().code(), Code::kCorrupt);
  EXPECT_TRUE(replica.machine->hello(kPublisher, {}).damaged);
  EXPECT_FALSE(replica.machine->hello(UpstreamKind::kParent, {}).damaged);
  (void)replica.welcome(kPublisher);
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kDamage}}));
  replica.stage(repair({2, state_of(2).hash}, {9, 9}));
  ASSERT_EQ(replica.machine->staged(), 1U);
  EXPECT_FALSE(replica.machine->begin_applying().expected.has_value());
  (void)replica.machine->on_applied(0);
  EXPECT_TRUE(holds<replica_phase::Published>(replica));
}

TEST(ReplicaBytes, DamageOfTooManyBlocksIsNotTold) {
  DrivenReplica replica;
  replica.publish();
  replica.machine->on_damage(Status(Code::kCorrupt, "damaged"), {9, 9}, state_of(1), {});
  EXPECT_FALSE(replica.machine->hello(kPublisher, {}).damaged);
}

// --- next() ---

TEST(ReplicaBytes, WhatIsAppliedCountsAmongWhatWaits) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  (void)replica.machine->begin_applying();
  EXPECT_TRUE(std::holds_alternative<replica_phase::Applying>(replica.machine->writer()));
  EXPECT_FALSE(replica.machine->may_sweep());
  EXPECT_EQ(replica.machine->hello(kPublisher, {}).tip, state_of(2));
  EXPECT_EQ(replica.machine->hello(kPublisher, {}).held, state_of(1));
  replica.stage(DrivenReplica::commit(2, 3));
  EXPECT_EQ(replica.machine->staged(), 1U);
  replica.machine->on_applied_nothing();
  EXPECT_EQ(replica.machine->staged(), 2U);
  replica.apply();
  replica.apply();
  EXPECT_EQ(replica.machine->held(), state_of(3));
}

TEST(ReplicaBytes, ARefusedUpdateTakesAllAfterItAlong) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  replica.stage(DrivenReplica::commit(2, 3));
  replica.forget();
  (void)replica.machine->begin_applying();
  replica.machine->on_not_applied(Status(Code::kCorrupt, "why"), true, 1);
  EXPECT_EQ(replica.machine->staged(), 0U);
  EXPECT_EQ(replica.machine->held(), state_of(1));
  EXPECT_TRUE(holds<replica_phase::Published>(replica));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kNack}}));
}

TEST(ReplicaBytes, AnEpochFarAheadCountsAsAYear) {
  DrivenReplica replica;
  (void)replica.welcome(kPublisher);
  replica.stage(DrivenReplica::commit(0, 1));
  replica.apply();
  EXPECT_EQ(replica.machine->latest().epoch, kDrivenEpoch);
  EXPECT_EQ(replica.machine->latest().version, 1U);
}

// --- the pin ---

TEST(ReplicaBytes, APinIsToldAndObeyed) {
  DrivenReplica replica;
  replica.publish();
  replica.machine->on_turn();
  replica.forget();
  ASSERT_TRUE(replica.machine->on_pin(2, {}, "").ok());
  replica.machine->on_turn();
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kPin}}));
  replica.machine->on_turn();
  EXPECT_EQ(replica.said(), ReplicaSaid{});
  replica.stage(DrivenReplica::commit(1, 2));
  replica.stage(DrivenReplica::commit(2, 3));
  EXPECT_TRUE(replica.machine->may_lead_on());
  replica.apply();
  EXPECT_FALSE(replica.machine->may_lead_on());
  EXPECT_TRUE(replica.machine->is_as_far_as_it_goes());
}

TEST(ReplicaBytes, APinOnThePastIsRefused) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  replica.apply();
  const Status status = replica.machine->on_pin(1, {}, "nothing is kept");
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.message().find("nothing is kept"), std::string::npos);
}

TEST(ReplicaBytes, WhatLeadsPastThePinIsDropped) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 4));
  ASSERT_TRUE(replica.machine->on_pin(2, {}, "").ok());
  EXPECT_EQ(replica.machine->staged(), 0U);
  EXPECT_TRUE(replica.machine->must_begin_anew());
}

TEST(ReplicaBytes, ThePinOnTheVersionBeforeGoesBack) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  replica.apply();
  replica.stage(DrivenReplica::commit(2, 3));
  ASSERT_TRUE(replica.machine->on_pin(1, state_of(1), "").ok());
  EXPECT_TRUE(replica.machine->wants_back());
  EXPECT_FALSE(replica.machine->may_lead_on());
  replica.machine->begin_restoring();
  EXPECT_TRUE(std::holds_alternative<replica_phase::Restoring>(replica.machine->writer()));
  replica.machine->on_restored(state_of(1), kDrivenEpoch);
  EXPECT_EQ(replica.machine->pin().to, replica_phase::Pin::To::kHeld);
  EXPECT_EQ(replica.machine->staged(), 0U);
  EXPECT_TRUE(replica.machine->must_begin_anew());
  ASSERT_TRUE(replica.machine->on_pin(0, {}, "").ok());
  EXPECT_EQ(replica.machine->pin().to, replica_phase::Pin::To::kAhead);
}

TEST(ReplicaBytes, GoingBackIsTriedAgainOnlyWithoutMemory) {
  for (const Code code : {Code::kOutOfMemory, Code::kCorrupt}) {
    DrivenReplica replica;
    replica.publish();
    replica.stage(DrivenReplica::commit(1, 2));
    replica.apply();
    ASSERT_TRUE(replica.machine->on_pin(1, state_of(1), "").ok());
    replica.machine->begin_restoring();
    replica.machine->on_not_restored(Status(code, "why"), state_of(1));
    EXPECT_EQ(replica.machine->wants_back(), code == Code::kOutOfMemory);
    EXPECT_TRUE(std::holds_alternative<replica_phase::Resting>(replica.machine->writer()));
  }
}

}  // namespace
}  // namespace sparcl::replication
