// The stages in which a session serves a replica.

#include <gtest/gtest.h>

#include "tests/replication/driven_session.hpp"

namespace sparcl::replication {
namespace {

TEST(SessionStages, ARequestedUpdateIsSentAndTheReplicaIsCurrent) {
  DrivenSession session;
  session.say_hello();
  EXPECT_EQ(session.hear(MessageType::kRequest, Request{{1, 2}, 0, false}),
            (MessageTypes{MessageType::kChunk, MessageType::kCommit}));
  EXPECT_TRUE(session.is_at<session_stage::Idle>());
  EXPECT_EQ(session.serving().ahead, 1);
  EXPECT_EQ(session.serving().tip.version, version_of(2));
  (void)session.hear(MessageType::kAck, Ack{AckStage::kStaged, version_of(2), true});
  EXPECT_EQ(session.machine->received_version(), 2U);
  EXPECT_EQ(session.machine->acknowledged_version(), 1U);
  (void)session.hear(MessageType::kAck, Ack{AckStage::kHeld, version_of(2), true});
  EXPECT_EQ(session.machine->acknowledged_version(), 2U);
  EXPECT_TRUE(session.is_proven);
  EXPECT_STREQ(session.machine->state(), "current");
}

TEST(SessionStages, BytesThatAreNotThereYetAreSentOnceTheyAre) {
  DrivenSession session;
  const std::shared_ptr<Update> coming = DrivenSession::update_that_comes();
  session.store.add(coming, update_of(3, 3, 0));
  session.become_idle();
  ASSERT_TRUE(session.is_at<session_stage::Offered>());
  EXPECT_EQ(session.hear(MessageType::kRequest, Request{{2, 3}, 0, true}), MessageTypes{});
  EXPECT_TRUE(session.is_at<session_stage::Sending>());
  coming->missing_bytes = 0;
  session.machine->on_news(session.now);
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), (MessageTypes{MessageType::kChunk, MessageType::kCommit}));
}

TEST(SessionStages, AReplicaThatDoesNotApplyIsOfferedNoMoreThanTwo) {
  DrivenSession session;
  session.be_sent();
  for (std::uint64_t next = 3; next <= 4; ++next)
    session.store.add(update_of(next - 1, next, 1000), update_of(next, next, 0));
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kOffer});
  EXPECT_EQ(session.hear(MessageType::kRequest, Request{{2, 3}, 0, false}),
            (MessageTypes{MessageType::kChunk, MessageType::kCommit, MessageType::kAlive}));
  EXPECT_TRUE(session.is_at<session_stage::Idle>());
  (void)session.hear(MessageType::kAck, Ack{AckStage::kHeld, version_of(2), true});
  EXPECT_TRUE(session.is_at<session_stage::Offered>());
}

TEST(SessionStages, AReplicaThatNamesAVersionIsSentAllUpToItWithinABudget) {
  for (const bool is_large : {false, true}) {
    const std::uint64_t bytes = is_large ? DrivenSession::kTensorBytes : 1000;
    DrivenSession session;
    (void)session.hear(MessageType::kHello, session.hello(2));
    for (std::uint64_t next = 3; next <= 9; ++next)
      session.store.add(update_of(next - 1, next, bytes), update_of(next, next, 0));
    session.machine->serve(session.now);
    (void)session.hear(MessageType::kPin, Pin{7});
    std::uint64_t sent = 2;
    while (sent < 9 && session.is_at<session_stage::Offered>()) {
      ++sent;
      (void)session.hear(MessageType::kRequest, Request{{sent - 1, sent}, 0, false});
      for (int turn = 0; turn < 100 && session.is_at<session_stage::Sending>(); ++turn) {
        session.machine->serve(session.now);
        (void)session.said();
      }
    }
    EXPECT_EQ(sent, is_large ? 4U : 7U);
    (void)session.hear(MessageType::kAck, Ack{AckStage::kHeld, version_of(sent), true});
    EXPECT_TRUE(session.is_at<session_stage::Offered>()) << "it goes on";
  }
}

TEST(SessionStages, ABusyConnectionIsSentNoMoreUntilItTakesIt) {
  DrivenSession session;
  session.store.add(update_of(2, 3, 8 << 20), update_of(3, 3, 0));
  session.become_idle();
  EXPECT_LT(session.hear(MessageType::kRequest, Request{{2, 3}, 0, true}).size(), 50U);
  ASSERT_TRUE(session.is_at<session_stage::Sending>());
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{});
  session.machine->on_sent(std::uint64_t{1} << 20, session.now);
  session.machine->send_on(session.now);
  EXPECT_FALSE(session.said().empty());
}

TEST(SessionStages, ARefusedUpdateIsFollowedByAnAnchor) {
  for (const bool is_requested : {false, true}) {
    DrivenSession session;
    session.store.add(DrivenSession::update_that_comes(), update_of(3, 3, 0));
    session.become_idle();
    if (is_requested) (void)session.hear(MessageType::kRequest, Request{{2, 3}, 0, true});
    (void)session.hear(MessageType::kNack, Nack{{2, 3}, Code::kCorrupt, true, "why"});
    EXPECT_TRUE(session.is_at<session_stage::Idle>());
    EXPECT_STREQ(session.machine->state(), "waits for an anchor");
    EXPECT_EQ(session.anchors_asked, 1);
    session.store.keep_anchor(update_of(0, 3, 5000, true));
    session.machine->serve(session.now);
    EXPECT_EQ(session.said(), MessageTypes{MessageType::kOffer});
    EXPECT_TRUE(session.is_at<session_stage::Offered>());
  }
}

TEST(SessionStages, TheFourthRefusalInARowEndsTheSession) {
  DrivenSession session;
  session.say_hello();
  for (int i = 0; i < 3; ++i) {
    (void)session.hear(MessageType::kNack, Nack{{1, 2}, Code::kCorrupt, false, "why"});
    EXPECT_TRUE(session.machine->is_replica()) << i;
  }
  (void)session.hear(MessageType::kNack, Nack{{1, 2}, Code::kCorrupt, false, "why"});
  EXPECT_TRUE(session.is<session_phase::Leaving>());
}

TEST(SessionStages, AWithdrawnUpdateEndsTheSessionsThatSendIt) {
  DrivenSession session;
  session.say_hello();
  session.machine->on_withdrawal(update_of(1, 2, 1000));  // another one
  EXPECT_TRUE(session.is_at<session_stage::Offered>());
  session.machine->on_withdrawal(std::get<session_stage::Offered>(session.serving().stage).update);
  EXPECT_TRUE(session.is<session_phase::Leaving>());
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kRefusal});
}

TEST(SessionStages, DamagedBlocksAreRepaired) {
  DrivenSession session;
  session.await_damage();
  ASSERT_TRUE(session.is_at<session_stage::AwaitsDamage>());
  EXPECT_EQ(session.hear(MessageType::kDamage, session.damage()), MessageTypes{});
  ASSERT_TRUE(session.is_at<session_stage::AwaitsRepair>());
  EXPECT_STREQ(session.machine->state(), "waits for a repair");
  ASSERT_NE(session.asked_repair, nullptr);
  session.asked_repair->update = update_of(0, 2, 100);
  session.asked_repair->is_over = true;
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kOffer});
  EXPECT_TRUE(session.is_at<session_stage::Offered>());
}

TEST(SessionStages, AnAnchorComesIfNoRepairIsMade) {
  DrivenSession session;
  session.await_repair();
  session.asked_repair->is_over = true;
  session.machine->serve(session.now);
  EXPECT_TRUE(session.is_at<session_stage::Idle>());
  EXPECT_EQ(session.anchors_asked, 1);
}

TEST(SessionStages, DamageOfOtherBytesLeadsToAnAnchor) {
  DrivenSession session;
  session.await_damage();
  Damage damage = session.damage();
  damage.block_hashes[0] = {5, 5};
  (void)session.hear(MessageType::kDamage, damage);
  EXPECT_TRUE(session.is_at<session_stage::Idle>());
  EXPECT_EQ(session.anchors_asked, 1);
}

TEST(SessionStages, DamageOfAnotherNumberOfBlocksIsRefused) {
  DrivenSession session;
  session.await_damage();
  Damage damage = session.damage();
  damage.block_hashes.emplace_back();
  (void)session.hear(MessageType::kDamage, damage);
  EXPECT_TRUE(session.is<session_phase::Leaving>());
}

TEST(SessionStages, BytesThatNobodyVouchesForAreCompared) {
  DrivenSession session;
  session.await_digest();
  ASSERT_TRUE(session.is_at<session_stage::AwaitsDigest>());
  EXPECT_STREQ(session.machine->state(), "is compared");
  session.identity = {version_of(1).hash, DrivenSession::identity_of(version_of(1)), false};
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kIdentity});
  ASSERT_TRUE(session.is_at<session_stage::AwaitsAnswer>());
  EXPECT_EQ(session.hear(MessageType::kAck, Ack{AckStage::kHeld, version_of(1), true}),
            MessageTypes{MessageType::kOffer});
  EXPECT_FALSE(std::get<session_stage::Offered>(session.serving().stage).update->commit.is_anchor);
}

TEST(SessionStages, BytesWhoseDigestCannotBeMadeGetAnAnchor) {
  DrivenSession session;
  session.await_digest();
  session.identity = {};
  session.machine->serve(session.now);
  EXPECT_TRUE(session.is_at<session_stage::Idle>());
  EXPECT_EQ(session.anchors_asked, 1);
}

TEST(SessionStages, BlocksThatDifferAreRepaired) {
  DrivenSession session;
  session.await_answer();
  ASSERT_TRUE(session.is_at<session_stage::AwaitsAnswer>());
  (void)session.hear(MessageType::kBlocks, BlockDigests{version_of(1), {{}, {}}});
  EXPECT_TRUE(session.is_at<session_stage::AwaitsRepair>());
  EXPECT_NE(session.asked_repair, nullptr);
}

TEST(SessionStages, BlocksOfAnotherVersionOrNumberAreRefused) {
  for (const BlockDigests& wrong :
       {BlockDigests{version_of(2), {{}, {}}}, BlockDigests{version_of(1), {{}}}}) {
    DrivenSession session;
    session.await_answer();
    (void)session.hear(MessageType::kBlocks, wrong);
    EXPECT_TRUE(session.is<session_phase::Leaving>());
  }
}

TEST(SessionStages, AnotherComparisonIsNotBegunAfterANack) {
  DrivenSession session;
  session.await_answer();
  (void)session.hear(MessageType::kNack, Nack{{0, 1}, Code::kWrongBase, true, "why"});
  EXPECT_TRUE(session.is_at<session_stage::Idle>());
  EXPECT_EQ(session.anchors_asked, 1);
}

TEST(SessionStages, AReplicaIsHandedOverAndComesBack) {
  DrivenSession session;
  session.take_a_parent();
  ASSERT_TRUE(session.is_at<session_stage::HasParent>());
  session.store.add(update_of(2, 3, 1000), update_of(3, 3, 0));
  session.machine->on_news(session.now);
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kAnnounce});
  (void)session.hear(MessageType::kAck, Ack{AckStage::kStaged, version_of(2), true});
  EXPECT_EQ(session.serving().tip.version, version_of(2));
  session.machine->on_call_back();
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kParent});
  EXPECT_TRUE(session.is_at<session_stage::HasParent>());
  Orphan orphan{1, version_of(2), 1, Code::kRemoteError, "it is gone", true};
  (void)session.hear(MessageType::kOrphan, orphan);
  EXPECT_TRUE(session.is_at<session_stage::HasParent>()) << "it answers the PARENT before";
  orphan.number = 2;
  (void)session.hear(MessageType::kOrphan, orphan);
  EXPECT_TRUE(session.is_at<session_stage::Offered>());
}

TEST(SessionStages, ARequestOfWhatWasNotOfferedIsRefused) {
  for (const Request& wrong : {Request{{1, 3}, 0, false}, Request{{1, 2}, 1001, false}}) {
    DrivenSession session;
    session.say_hello();
    (void)session.hear(MessageType::kRequest, wrong);
    EXPECT_TRUE(session.is<session_phase::Leaving>());
  }
}

TEST(SessionStages, AReplicaThatIsOnlyToldIsOfferedNothing) {
  DrivenSession session;
  Hello hello = session.hello(0);
  hello.only_told = true;
  hello.held_is_vouched = hello.tip_is_vouched = false;
  EXPECT_EQ(session.hear(MessageType::kHello, hello), MessageTypes{MessageType::kWelcome});
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{}) << "the WELCOME has told of version 2";
  session.store.add(update_of(2, 3, 1000), update_of(3, 3, 0));
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kAlive});
  EXPECT_EQ(parse_alive(session.last_content)->version, 3U);
  EXPECT_EQ(session.anchors_asked, 0);
  EXPECT_EQ(session.machine->acknowledged_version(), 0U);
  (void)session.hear(MessageType::kAck, Ack{AckStage::kHeld, version_of(3), true});
  EXPECT_EQ(session.machine->acknowledged_version(), 3U) << "though it was not sent here";
  EXPECT_TRUE(session.machine->has_answered());
  EXPECT_FALSE(session.is_proven);
  EXPECT_STREQ(session.machine->state(), "current");
}

TEST(SessionStages, AReplicaThatIsOnlyToldMayHoldAnythingAndCountsWithKnownBytesAlone) {
  DrivenSession session;
  Hello hello = session.hello(2);
  hello.only_told = true;
  (void)session.hear(MessageType::kHello, hello);
  EXPECT_EQ(session.machine->acknowledged_version(), 2U);
  for (int i = 0; i < 20; ++i)
    (void)session.hear(MessageType::kAck, Ack{AckStage::kHeld, {2, {1, 2}}, true});
  EXPECT_EQ(session.machine->acknowledged_version(), 0U) << "another state of that number";
  EXPECT_EQ(session.context.scores->backed_off_s(session.machine->score_key(), session.now), 0);
}

TEST(SessionStages, APinIsObeyed) {
  DrivenSession session;
  session.become_idle();
  (void)session.hear(MessageType::kPin, Pin{2});
  EXPECT_EQ(session.serving().pin, 2U);
}

}  // namespace
}  // namespace sparcl::replication
