// The phases of a replica: where its updates come from, and how an update comes.

#include "src/replication/replica_machine.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/replication/driven_replica.hpp"

namespace sparcl::replication {
namespace {

bool follows_publisher(const DrivenReplica& replica) {
  return replica.is<replica_phase::FromPublisher>(replica.machine->source());
}

// --- greetings ---

TEST(ReplicaMachine, AWelcomeOfAnotherProtocolOrModelIsRefused) {
  DrivenReplica replica;
  Welcome welcome{kProtocolVersion, "m", kDrivenEpoch, 2, 5000, "a test", {}, {}};
  welcome.protocol = 1;
  EXPECT_EQ(replica.machine->on_welcome(kPublisher, welcome).code(), Code::kUnsupported);
  welcome.protocol = kProtocolVersion;
  welcome.model_id = "another";
  EXPECT_EQ(replica.machine->on_welcome(kPublisher, welcome).code(), Code::kMismatch);
}

TEST(ReplicaMachine, AWelcomeBeginsFromThePublisher) {
  DrivenReplica replica;
  replica.follow_a_parent();
  ASSERT_FALSE(follows_publisher(replica));
  EXPECT_TRUE(replica.welcome(kPublisher).ok());
  EXPECT_TRUE(follows_publisher(replica));
  EXPECT_TRUE(replica.was_asked<replica_action::Leave>());
}

TEST(ReplicaMachine, AWelcomeOfAnotherEpochForgetsWhatWaits) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  ASSERT_EQ(replica.machine->staged(), 1U);
  EXPECT_TRUE(replica.welcome(kPublisher, 2, kDrivenEpoch + 1).ok());
  EXPECT_EQ(replica.machine->staged(), 0U);
  EXPECT_TRUE(replica.machine->must_begin_anew());
  EXPECT_TRUE(replica.was_asked<replica_action::StopPassingOn>());
}

TEST(ReplicaMachine, AParentIsToldWhatWasAppliedSinceTheHello) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  (void)replica.take_parent();
  (void)replica.machine->hello(kParent, {});
  replica.apply();
  replica.forget();
  EXPECT_TRUE(replica.machine
                  ->on_welcome(kParent, {kProtocolVersion, "m", kDrivenEpoch, 2, 5000, "p", {}, {}})
                  .ok());
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kParent, MessageType::kAck}}));
  EXPECT_EQ(parse_ack(replica.last_content())->held, state_of(2));
}

TEST(ReplicaMachine, TheHelloSaysWhatIsHeldAndWhatWillBe) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  const Hello hello = replica.machine->hello(kPublisher, {4711, true});
  EXPECT_EQ(hello.held, state_of(1));
  EXPECT_EQ(hello.tip, state_of(2));
  EXPECT_EQ(hello.ahead, 1);
  EXPECT_EQ(hello.port, 4711);
  EXPECT_TRUE(hello.shares_memory && hello.held_is_vouched && hello.tip_is_vouched);
}

// --- the update that comes ---

TEST(ReplicaMachine, AnOfferIsRequestedReceivedAndStaged) {
  DrivenReplica replica;
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  replica.forget();
  const Commit anchor = DrivenReplica::commit(0, 1);
  EXPECT_TRUE(replica.offer(kPublisher, anchor).ok());
  EXPECT_TRUE(replica.is<replica_phase::Receiving>(replica.machine->transfer()));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kRequest}}));
  EXPECT_TRUE(replica.was_asked<replica_action::PassOn>());
  EXPECT_TRUE(replica.give(kPublisher, anchor).ok());
  EXPECT_TRUE(replica.is<replica_phase::NoUpdate>(replica.machine->transfer()));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kAck}}));
  EXPECT_EQ(parse_ack(replica.last_content())->stage, AckStage::kStaged);
  EXPECT_TRUE(replica.was_asked<replica_action::WakeUser>());
  EXPECT_TRUE(replica.was_asked<replica_action::NoteProgress>());
}

TEST(ReplicaMachine, APartialUpdateGoesOnWhenItIsOfferedAgain) {
  DrivenReplica replica;
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  const Commit anchor = DrivenReplica::commit(0, 1);
  ASSERT_TRUE(replica.offer(kPublisher, anchor).ok());
  replica.machine->on_parted(kPublisher, Status(Code::kRemoteError, "gone"), false, replica.now);
  EXPECT_TRUE(replica.is<replica_phase::Partial>(replica.machine->transfer()));
  EXPECT_EQ(replica.machine->trouble().code(), Code::kRemoteError);
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  EXPECT_TRUE(replica.is<replica_phase::Partial>(replica.machine->transfer()));
  replica.forget();
  ASSERT_TRUE(replica.offer(kPublisher, anchor).ok());
  EXPECT_FALSE(replica.was_asked<replica_action::PassOn>()) << "it is the same update";
}

TEST(ReplicaMachine, AnotherOfferTakesThePositionOfAPartialUpdate) {
  DrivenReplica replica;
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  ASSERT_TRUE(replica.offer(kPublisher, DrivenReplica::commit(0, 1)).ok());
  replica.forget();
  ASSERT_TRUE(replica.offer(kPublisher, DrivenReplica::commit(0, 2)).ok());
  EXPECT_TRUE(replica.was_asked<replica_action::Withdraw>());
  EXPECT_TRUE(replica.was_asked<replica_action::PassOn>());
  EXPECT_EQ(replica.machine->incoming()->commit().version, 2U);
}

TEST(ReplicaMachine, OffersThatBreakTheRulesAreRefused) {
  const auto code = [](const std::function<void(Commit&)>& spoil, std::uint64_t version = 2) {
    DrivenReplica replica;
    replica.publish();
    Commit commit = DrivenReplica::commit(1, version);
    spoil(commit);
    return replica.offer(kPublisher, commit).code();
  };
  EXPECT_EQ(code([](Commit&) {}), Code::kSuccess);
  EXPECT_EQ(code([](Commit& each) { each.model_id = "x"; }), Code::kMismatch);
  EXPECT_EQ(code([](Commit& each) { each.schema_hash = {}; }), Code::kMismatch);
  EXPECT_EQ(code([](Commit& each) { each.stream_bytes = 2 << 20; }), Code::kCorrupt);
  EXPECT_EQ(code([](Commit& each) { each.epoch += 1; }), Code::kUnauthorized);
  EXPECT_EQ(code([](Commit&) {}, 1), Code::kUnauthorized) << "an old version";
}

TEST(ReplicaMachine, NoMoreUpdatesWaitThanWereToBeSent) {
  DrivenReplica replica;
  replica.publish();
  for (std::uint64_t next = 2; next <= 4; ++next)
    replica.stage(DrivenReplica::commit(next - 1, next));
  EXPECT_EQ(replica.machine->staged(), 3U);
  EXPECT_EQ(replica.offer(kPublisher, DrivenReplica::commit(4, 5)).code(), Code::kCorrupt);
}

TEST(ReplicaMachine, AWantedVersionIsToldAndMakesRoomForTheUpdatesToIt) {
  DrivenReplica replica;
  replica.publish();
  for (std::uint64_t next = 2; next <= 4; ++next)
    replica.stage(DrivenReplica::commit(next - 1, next));
  EXPECT_FALSE(replica.machine->may_come_more());
  replica.machine->on_turn();
  replica.forget();
  replica.machine->on_want(9);
  EXPECT_TRUE(replica.machine->may_come_more());
  replica.machine->on_turn();
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kPin}}));
  EXPECT_EQ(parse_pin(replica.last_content())->version, 9U);
  EXPECT_EQ(replica.machine->hello(kPublisher, {}).pin, 9U);
  replica.stage(DrivenReplica::commit(4, 5));
  EXPECT_EQ(replica.machine->staged(), 4U);
  ASSERT_TRUE(replica.machine->on_pin(7, {}, "").ok());
  EXPECT_EQ(replica.machine->hello(kPublisher, {}).pin, 7U) << "the user's pin is lower";
  ASSERT_TRUE(replica.machine->on_pin(0, {}, "").ok());
  replica.forget();
  replica.machine->on_want(0);
  replica.machine->on_turn();
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kPin}}));
  EXPECT_EQ(parse_pin(replica.last_content())->version, 0U);
}

// As many bytes as they like would take the replica's memory.
TEST(ReplicaMachine, UpdatesToAWantedVersionAreBounded) {
  DrivenReplica replica;
  replica.publish();
  replica.machine->on_want(1000);
  replica.machine->on_turn();
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 19;  // of what one update can have
  std::uint64_t next = 2;
  for (; next < 20 && replica.offer(kPublisher, DrivenReplica::commit(next - 1, next, kHalf)).ok();
       ++next)
    replica.stage(DrivenReplica::commit(next - 1, next, kHalf));
  EXPECT_EQ(replica.machine->staged(), 8U);
  DrivenReplica patient;
  patient.publish();
  patient.machine->on_want(1000);
  patient.machine->on_turn();
  for (next = 2; next < 400 && patient.offer(kPublisher, DrivenReplica::commit(next - 1, next)).ok();
       ++next)
    patient.stage(DrivenReplica::commit(next - 1, next));
  EXPECT_EQ(patient.machine->staged(), kMaxUpdatesToPin + 2);
}

// It knows of no wish: the publisher serves the replica, or gives it another parent.
TEST(ReplicaMachine, AParentThatSendsNoMoreIsLeftForAWantedVersion) {
  DrivenReplica replica;
  replica.publish();
  for (std::uint64_t next = 2; next <= 3; ++next)
    replica.stage(DrivenReplica::commit(next - 1, next));
  ASSERT_TRUE(replica.take_parent().ok());
  ASSERT_TRUE(replica.welcome(kParent).ok());
  replica.forget();
  replica.machine->on_want(3);
  EXPECT_FALSE(follows_publisher(replica)) << "it has that version";
  replica.machine->on_want(9);
  EXPECT_TRUE(follows_publisher(replica));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kOrphan}}));
  EXPECT_EQ(parse_orphan(replica.last_content())->code, Code::kSuccess) << "nobody is to blame";
}

TEST(ReplicaMachine, AnUpdateFromAnotherBaseIsRefusedAndAnAnchorAskedFor) {
  DrivenReplica replica;
  replica.publish();
  ASSERT_TRUE(replica.offer(kPublisher, DrivenReplica::commit(7, 8)).ok());
  EXPECT_TRUE(replica.is<replica_phase::NoUpdate>(replica.machine->transfer()));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kNack}}));
  EXPECT_TRUE(parse_nack(replica.last_content())->wants_anchor);
}

TEST(ReplicaMachine, BytesOutOfPlaceEndTheConnectionAlone) {
  DrivenReplica replica;
  replica.publish();
  const Commit commit = DrivenReplica::commit(1, 2);
  ASSERT_TRUE(replica.offer(kPublisher, commit).ok());
  EXPECT_EQ(replica.machine->destination(kPublisher, {2, 50}, 50).size(), 0U);
  EXPECT_EQ(replica.machine->on_chunk(kPublisher, {2, 50}, 50, false, 1).code(), Code::kCorrupt);
  EXPECT_EQ(replica.machine->on_chunk(kParent, {2, 0}, 50, false, 1).code(), Code::kCorrupt);
  EXPECT_EQ(replica.machine->on_memory(kPublisher, {3, 0}, Buffer::allocate(100), 1).code(),
            Code::kCorrupt);
  EXPECT_EQ(replica.machine->on_end(kPublisher, {1, 2}).code(), Code::kCorrupt) << "too early";
  EXPECT_TRUE(replica.is<replica_phase::Receiving>(replica.machine->transfer()));
}

TEST(ReplicaMachine, BytesOfARefusedUpdateAreNoError) {
  DrivenReplica replica;
  replica.publish();
  EXPECT_TRUE(replica.machine->on_chunk(kPublisher, {2, 0}, 50, false, 1).ok());
  EXPECT_TRUE(replica.machine->on_memory(kPublisher, {3, 0}, Buffer::allocate(9), 1).ok());
  EXPECT_TRUE(replica.machine->on_end(kPublisher, {1, 2}).ok());
}

TEST(ReplicaMachine, AFailedCheckRefusesWhatIsStaged) {
  DrivenReplica replica;
  replica.publish();
  replica.stage(DrivenReplica::commit(1, 2));
  replica.stage(DrivenReplica::commit(2, 3));
  ASSERT_NE(replica.machine->to_check(), nullptr);
  replica.forget();
  replica.machine->on_checked(Status(Code::kCorrupt, "no update"), replica.now);
  EXPECT_EQ(replica.machine->staged(), 0U);
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kNack}}));
  EXPECT_TRUE(replica.was_asked<replica_action::StopPassingOn>());
}

// --- parents ---

TEST(ReplicaMachine, AParentIsConnectedTo) {
  DrivenReplica replica;
  replica.publish();
  EXPECT_TRUE(replica.take_parent().ok());
  EXPECT_FALSE(follows_publisher(replica));
  EXPECT_TRUE(replica.was_asked<replica_action::ConnectParent>());
}

TEST(ReplicaMachine, AParentsOfferWaitsForItsAnnouncement) {
  DrivenReplica replica;
  replica.follow_a_parent();
  const Commit commit = DrivenReplica::commit(1, 2);
  ASSERT_TRUE(replica.offer(kParent, commit).ok());
  EXPECT_TRUE(replica.is<replica_phase::AwaitsAnnouncement>(replica.machine->transfer()));
  EXPECT_EQ(replica.said(), ReplicaSaid{});
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kAnnounce, Offer{commit, {}}).ok());
  EXPECT_TRUE(replica.is<replica_phase::Receiving>(replica.machine->transfer()));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kParent, MessageType::kRequest}}));
  EXPECT_EQ(replica.machine->newest(), 2U);
}

TEST(ReplicaMachine, AParentDoesNotReplaceAnOfferThatIsNotAnnounced) {
  DrivenReplica replica;
  replica.follow_a_parent();
  ASSERT_TRUE(replica.offer(kParent, DrivenReplica::commit(1, 2)).ok());
  const Commit real = DrivenReplica::commit(1, 3);
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kAnnounce, Offer{real, {}}).ok());
  EXPECT_EQ(replica.offer(kParent, real).code(), Code::kCorrupt);
}

TEST(ReplicaMachine, AnAnnouncedOfferIsRequestedAtOnce) {
  DrivenReplica replica;
  replica.follow_a_parent();
  const Commit commit = DrivenReplica::commit(1, 2);
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kAnnounce, Offer{commit, {}}).ok());
  ASSERT_TRUE(replica.offer(kParent, commit).ok());
  EXPECT_TRUE(replica.is<replica_phase::Receiving>(replica.machine->transfer()));
}

TEST(ReplicaMachine, AnOfferThatIsNotAnnouncedInTimeEndsTheParent) {
  DrivenReplica replica;
  replica.follow_a_parent();
  ASSERT_TRUE(replica.offer(kParent, DrivenReplica::commit(1, 2)).ok());
  replica.now = replica.parent.heard_at = 1.4;
  replica.machine->on_tick(replica.now);
  EXPECT_FALSE(follows_publisher(replica));
  replica.publisher.heard_at = 1.6;
  replica.machine->on_tick(replica.now);
  EXPECT_TRUE(follows_publisher(replica));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kOrphan}}));
  EXPECT_EQ(parse_orphan(replica.last_content())->code, Code::kUnauthorized);
}

TEST(ReplicaMachine, ASilentParentIsLeftIfThereIsANewerVersion) {
  for (const bool is_ready : {true, false}) {
    DrivenReplica replica;
    replica.follow_a_parent();
    replica.parent.ready = is_ready;
    replica.parent.heard_at = 1;
    replica.now = 1.6;
    replica.machine->on_tick(replica.now);
    EXPECT_TRUE(follows_publisher(replica));
    EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kOrphan}}));
    EXPECT_EQ(parse_orphan(replica.last_content())->code,
              is_ready ? Code::kTimeout : Code::kRemoteError);
  }
}

TEST(ReplicaMachine, ASilentParentIsKeptWhileNothingIsNew) {
  DrivenReplica replica;
  ASSERT_TRUE(replica.welcome(kPublisher, 1).ok());
  replica.stage(DrivenReplica::commit(0, 1));
  replica.apply();
  (void)replica.take_parent();
  replica.machine->on_tick(100);
  EXPECT_FALSE(follows_publisher(replica));
}

TEST(ReplicaMachine, ALostParentIsReplacedByThePublisher) {
  DrivenReplica replica;
  replica.follow_a_parent();
  const Commit commit = DrivenReplica::commit(1, 2);
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kAnnounce, Offer{commit, {}}).ok());
  ASSERT_TRUE(replica.offer(kParent, commit).ok());
  replica.forget();
  replica.machine->on_parted(kParent, Status(Code::kRemoteError, "gone"), false, replica.now);
  EXPECT_TRUE(follows_publisher(replica));
  EXPECT_TRUE(replica.is<replica_phase::Partial>(replica.machine->transfer()));
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kOrphan}}));
  ASSERT_TRUE(replica.offer(kPublisher, commit).ok());
  EXPECT_TRUE(replica.is<replica_phase::Receiving>(replica.machine->transfer()));
}

TEST(ReplicaMachine, ACallBackIsAnsweredWithAndWithoutAParent) {
  for (const bool has_parent : {true, false}) {
    DrivenReplica replica;
    has_parent ? replica.follow_a_parent() : replica.publish();
    ASSERT_TRUE(replica.hear(kPublisher, MessageType::kParent, Parent{7, {}, "p"}).ok());
    EXPECT_TRUE(follows_publisher(replica));
    EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kOrphan}}));
    EXPECT_EQ(parse_orphan(replica.last_content())->number, 7U);
  }
}

TEST(ReplicaMachine, WhatAParentSendsIsNotThePublishersFault) {
  DrivenReplica replica;
  replica.follow_a_parent();
  const Commit commit = DrivenReplica::commit(7, 8);
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kAnnounce, Offer{commit, {}}).ok());
  ASSERT_TRUE(replica.offer(kParent, commit).ok());
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kOrphan}}));
  EXPECT_TRUE(follows_publisher(replica));
  EXPECT_TRUE(replica.machine->trouble().ok());
}

TEST(ReplicaMachine, AnAnnouncedOfferThatBreaksTheRulesEndsTheParent) {
  DrivenReplica replica;
  replica.follow_a_parent();
  const Commit old = DrivenReplica::commit(0, 1);
  ASSERT_TRUE(replica.offer(kParent, old).ok());
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kAnnounce, Offer{old, {}}).ok());
  EXPECT_TRUE(replica.was_asked<replica_action::Part>());
}

TEST(ReplicaMachine, OnlyATroubleThatLastsIsSaidAtOnce) {
  for (const Code code : {Code::kRemoteError, Code::kMismatch}) {
    DrivenReplica replica;
    replica.publish();
    replica.machine->on_parted(kPublisher, Status(code, "why"), true, replica.now);
    EXPECT_EQ(replica.machine->has_reason(), code == Code::kMismatch);
    EXPECT_EQ(replica.was_asked<replica_action::WakeUser>(), code == Code::kMismatch);
  }
}

// --- each event in each phase ---

bool is_out_of_place(const Status& status) {
  return status.code() == Code::kCorrupt &&
         status.message().find("out of place here") != std::string::npos;
}

TEST(ReplicaMachine, EachMessageIsTakenOrRefusedFromEachSide) {
  using M = MessageType;
  const std::set<M> orders{M::kParent, M::kAnnounce, M::kIdentity, M::kFresh,
                           M::kSideFiles};
  for (const bool has_parent : {false, true}) {
    for (const UpstreamKind from : {kPublisher, kParent}) {
      for (int number = 1; number <= static_cast<int>(kLastMessageType); ++number) {
        const auto type = static_cast<MessageType>(number);
        DrivenReplica replica(false, 0, Digest256{});
        has_parent ? replica.follow_a_parent() : replica.publish();
        const bool is_taken = from == kPublisher && orders.contains(type);
        const Status status = replica.machine->on_message(from, type, {}, replica.now);
        EXPECT_EQ(status.code(), Code::kCorrupt);  // it has no content
        EXPECT_EQ(is_out_of_place(status), !is_taken) << number << " " << has_parent;
      }
    }
  }
}

TEST(ReplicaMachine, UpdatesComeFromOneSideAtATime) {
  const UpdateName name{1, 2};
  for (const bool has_parent : {false, true}) {
    for (const UpstreamKind from : {kPublisher, kParent}) {
      DrivenReplica replica;
      has_parent ? replica.follow_a_parent() : replica.publish();
      const bool is_refused = (from == kParent) != has_parent;
      ReplicaMachine& machine = *replica.machine;
      EXPECT_EQ(is_out_of_place(machine.on_digests(from, {name, 0, {}})), is_refused);
      EXPECT_EQ(is_out_of_place(machine.on_chunk(from, {2, 0}, 9, false, 1)), is_refused);
      EXPECT_EQ(is_out_of_place(machine.on_end(from, name)), is_refused);
      EXPECT_EQ(is_out_of_place(replica.offer(from, DrivenReplica::commit(1, 2))), is_refused);
      // A parent's offer is not announced yet.
      EXPECT_EQ(machine.destination(from, {2, 0}, 9).size() > 0, from == kPublisher && !has_parent);
    }
  }
}

// --- a replica that is only told of versions ---

TEST(ReplicaMachine, OneThatIsOnlyToldTakesNoUpdate) {
  DrivenReplica replica;
  replica.machine->on_only_told(true);
  EXPECT_TRUE(replica.machine->must_begin_anew()) << "the publisher hears it by a HELLO";
  replica.machine->on_begin_anew();
  EXPECT_TRUE(replica.machine->hello(kPublisher, {}).only_told);
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  EXPECT_EQ(replica.offer(kPublisher, DrivenReplica::commit(0, 2)).code(), Code::kCorrupt);
  EXPECT_EQ(replica.take_parent().code(), Code::kCorrupt);
  replica.forget();
  replica.machine->on_newest(kPublisher, 3);
  EXPECT_TRUE(replica.was_asked<replica_action::WakeUser>());
  EXPECT_EQ(replica.machine->newest(), 3U);
  EXPECT_FALSE(replica.machine->has_reason()) << "next() has nothing";
}

TEST(ReplicaMachine, OneThatIsOnlyToldSaysWhatItHasTakenElsewhere) {
  DrivenReplica replica;
  replica.machine->on_only_told(true);
  replica.machine->on_begin_anew();
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  replica.forget();
  replica.machine->begin_taking();
  replica.machine->on_taken(state_of(2));
  EXPECT_FALSE(replica.machine->must_begin_anew());
  replica.machine->on_turn();
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kAck}}));
  const Ack ack = *parse_ack(replica.last_content());
  EXPECT_EQ(ack.held, state_of(2));
  EXPECT_TRUE(ack.is_vouched);
  // Updates again: from what it holds.
  replica.machine->on_only_told(false);
  EXPECT_TRUE(replica.machine->must_begin_anew());
  replica.machine->on_begin_anew();
  EXPECT_FALSE(replica.machine->hello(kPublisher, {}).only_told);
  ASSERT_TRUE(replica.welcome(kPublisher, 3).ok());
  EXPECT_TRUE(replica.offer(kPublisher, DrivenReplica::commit(2, 3)).ok());
  EXPECT_TRUE(replica.machine->is_receiving());
}

TEST(ReplicaMachine, OneThatIsOnlyToldAsksForNoRepair) {
  DrivenReplica replica;
  replica.damage();
  EXPECT_TRUE(replica.machine->hello(kPublisher, {}).damaged);
  replica.machine->on_only_told(true);
  EXPECT_FALSE(replica.machine->hello(kPublisher, {}).damaged);
}

}  // namespace
}  // namespace sparcl::replication
