// All bytes that a replica is given by another one: the plan, and both machines.

#include <gtest/gtest.h>

#include "tests/replication/driven_replica.hpp"
#include "tests/replication/driven_session.hpp"

namespace sparcl::replication {
namespace {

using Id = FanOut::Id;
constexpr std::uint64_t kGivable[] = {7, 6};

// --- the plan ---

void hold(FanOut& plan, Id id, std::uint64_t version, double now) {
  plan.join(id, true, {}, {}, true);
  plan.begin(id, version, 1000, false, now);
  plan.sent(id, now);
  plan.staged(id, version, now);
  plan.holds(id, version);
}

TEST(FanOutGivers, AreReplicasThatHoldAGivableVersion) {
  FanOut plan(1);
  plan.join(1, true, {}, {}, true);
  plan.staged(1, 7, 0);
  plan.join(2, true);
  EXPECT_FALSE(plan.assign_parent(2, 7, 0, kGivable));  // it has it, and does not hold it
  plan.holds(1, 5);
  EXPECT_FALSE(plan.assign_parent(2, 7, 0, kGivable));
  plan.holds(1, 6);
  EXPECT_FALSE(plan.assign_parent(2, 7, 0));
  EXPECT_EQ(plan.assign_parent(2, 7, 0, kGivable), 1U);
  EXPECT_EQ(plan.given(2), 6U);
  FanOut silent(1);
  silent.join(1, true);
  silent.staged(1, 7, 0);
  silent.holds(1, 7);
  silent.join(2, true);
  EXPECT_FALSE(silent.assign_parent(2, 7, 0, kGivable));  // it gives nothing
}

TEST(FanOutGivers, GiveToOneReplicaAtATime) {
  FanOut plan(4);
  hold(plan, 1, 7, 0);
  for (const Id id : {2U, 3U, 4U, 5U, 6U}) plan.join(id, true);
  EXPECT_EQ(plan.assign_parent(5, 7, 0, kGivable), 1U);
  EXPECT_FALSE(plan.assign_parent(6, 7, 0, kGivable));
  plan.staged(5, 7, 1);
  EXPECT_EQ(plan.given(5), 0U);
  EXPECT_EQ(plan.assign_parent(6, 7, 1, kGivable), 1U);
  plan.leave(6);
  plan.join(7, true);
  EXPECT_EQ(plan.assign_parent(7, 7, 1, kGivable), 1U);
}

TEST(FanOutGivers, ArePreferredLessThanReplicasThatAreSentTheAnchor) {
  FanOut plan(2);
  hold(plan, 1, 7, 0);
  plan.join(2, true);
  plan.begin(2, 7, 1000, true, 0);
  plan.join(3, true);
  EXPECT_EQ(plan.assign_parent(3, 7, 0, kGivable), 2U);
  EXPECT_EQ(plan.given(3), 0U);
}

TEST(FanOutGivers, HaveNothingForOthersOfWhatIsNotChecked) {
  FanOut plan(1);
  hold(plan, 1, 7, 0);
  plan.join(2, true);
  ASSERT_EQ(plan.assign_parent(2, 7, 0, kGivable), 1U);
  plan.join(3, true);
  EXPECT_FALSE(plan.assign_parent(3, 7, 0));
}

// Meanwhile it is late with nothing else.
TEST(FanOutGivers, HaveTimeForAllBytes) {
  FanOut plan(1);
  hold(plan, 1, 7, 0);
  plan.join(2, true);
  ASSERT_EQ(plan.assign_parent(2, 7, 0, kGivable), 1U);
  plan.expect_given(2, 1 << 20, 0);
  plan.staged(1, 8, 1);
  plan.awaits(2, 8, 1000, 1);
  EXPECT_TRUE(plan.relieve(4).empty());
  EXPECT_EQ(plan.relieve(7), std::vector<Id>{2});  // 256 KiB/s, and two seconds
  EXPECT_FALSE(plan.come_back(2, FanOut::Blame::kIdleParent, 7));
  hold(plan, 3, 8, 7);
  EXPECT_FALSE(plan.assign_parent(2, 8, 100, std::vector<std::uint64_t>{8, 7}));  // once
}

TEST(FanOutGivers, AreExpelledForOtherBytes) {
  FanOut plan(1);
  hold(plan, 1, 7, 0);
  plan.join(2, true);
  ASSERT_EQ(plan.assign_parent(2, 7, 0, kGivable), 1U);
  EXPECT_EQ(plan.come_back(2, FanOut::Blame::kFalseParent, 1), 1U);
  EXPECT_TRUE(plan.is_expelled(1));
}

TEST(FanOutGivers, AreParentsLikeOthersAfterThat) {
  FanOut plan(1);
  hold(plan, 1, 7, 0);
  plan.join(2, true);
  ASSERT_EQ(plan.assign_parent(2, 7, 0, kGivable), 1U);
  plan.staged(1, 8, 1);
  plan.staged(2, 7, 2);
  EXPECT_EQ(plan.relieve(3.5), std::vector<Id>{2});  // with 8
}

// --- the publisher's machine ---

// It has no version, and another replica holds version 2.
class GivingSession {
 public:
  explicit GivingSession(IdentityAnswer answer) {
    session.identity = std::move(answer);
    session.other_machine.emplace(SessionMachine::Peer{1, kPeerAddress, false}, session.context,
                                  session.memory, session.counts, 0.0);
    Hello gives = session.hello(1);
    gives.port = 4000;
    gives.gives_bytes = true;
    hear_other(MessageType::kHello, gives);
    hear_other(MessageType::kRequest, Request{{1, 2}, 0, false});
    hear_other(MessageType::kAck, Ack{AckStage::kHeld, version_of(2), true});
    session.other = &*session.other_machine;
  }
  template <class Message>
  void hear_other(MessageType type, const Message& message) {
    std::vector<std::byte> content = serialise(message);
    session.other_machine->on_message(type, content, session.now);
    session.other_machine->serve(session.now);
    session.other_machine->clear_actions();
  }
  Hello joiner() const {
    Hello joins = session.hello(0);
    joins.held_is_vouched = joins.tip_is_vouched = false;
    joins.latest = {};
    joins.takes_bytes = true;
    return joins;
  }
  MessageTypes join() { return session.hear(MessageType::kHello, joiner()); }

  DrivenSession session;
};

IdentityAnswer made() {
  return {version_of(2).hash, DrivenSession::identity_of(version_of(2)), false};
}
IdentityAnswer in_the_making() { return {version_of(2).hash, {}, true}; }

using M = MessageType;

TEST(GivingSessions, AReplicaThatJoinsIsSentToAGiver) {
  GivingSession giving(made());
  EXPECT_EQ(giving.join(), (MessageTypes{M::kWelcome, M::kParent, M::kIdentity}));
  ASSERT_TRUE(giving.session.is_at<session_stage::HasParent>());
  const Result<Identity> told = parse_identity(giving.session.last_content);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->version, version_of(2));
  EXPECT_EQ(told->placement, 1U);
  EXPECT_EQ(giving.session.anchors_asked, 0);
  (void)giving.session.hear(M::kAck, Ack{AckStage::kStaged, version_of(2), true});
  (void)giving.session.hear(M::kAck, Ack{AckStage::kHeld, version_of(2), true});
  EXPECT_EQ(giving.session.machine->acknowledged_version(), 2U);
}

// The giver makes the bytes while the publisher makes their SHA-256.
TEST(GivingSessions, TheIdentityFollowsOnceItIsMade) {
  GivingSession giving(in_the_making());
  DrivenSession& session = giving.session;
  EXPECT_EQ(giving.join(), (MessageTypes{M::kWelcome, M::kParent}));
  session.identity = made();
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{M::kIdentity});
  session.machine->serve(session.now);
  EXPECT_TRUE(session.said().empty());
}

TEST(GivingSessions, AReplicaComesBackIfThereWillBeNoIdentity) {
  GivingSession giving(in_the_making());
  (void)giving.join();
  giving.session.identity = {};
  giving.session.machine->serve(giving.session.now);
  EXPECT_EQ(giving.session.said(), MessageTypes{M::kParent});
  const Result<Parent> back = parse_parent(giving.session.last_content);
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(back->address || back->gives_bytes);
}

TEST(GivingSessions, NoGiverIsNamedWithoutAnIdentity) {
  GivingSession giving({});
  EXPECT_EQ(giving.join(), MessageTypes{M::kWelcome});
  EXPECT_EQ(giving.session.anchors_asked, 1);
}

// A giver may come to hold later versions, before it gives.
TEST(GivingSessions, LaterVersionsOfTheGiverAreVouchedForToo) {
  GivingSession giving(in_the_making());
  DrivenSession& session = giving.session;
  (void)giving.join();
  session.store.add(update_of(2, 3, 1000), update_of(3, 3, 0));
  session.other_machine->serve(session.now);
  giving.hear_other(M::kRequest, Request{{2, 3}, 0, false});
  giving.hear_other(M::kAck, Ack{AckStage::kHeld, version_of(3), true});
  session.identity = {version_of(3).hash, DrivenSession::identity_of(version_of(3)), false};
  session.machine->serve(session.now);
  ASSERT_EQ(session.said(), MessageTypes{M::kIdentity});
  EXPECT_EQ(parse_identity(session.last_content)->version, version_of(3));
}

TEST(GivingSessions, ThePublisherGivesAllBytesAfterAGiverHasFailed) {
  GivingSession giving(made());
  DrivenSession& session = giving.session;
  (void)giving.join();
  const Orphan orphan{1, version_of(0), 0, Code::kCorrupt, "other bytes", false};
  (void)session.hear(M::kOrphan, orphan);
  EXPECT_EQ(session.anchors_asked, 1);
  EXPECT_TRUE(session.fan_out.is_expelled(1));
  session.now += 100;
  session.machine->serve(session.now);
  EXPECT_TRUE(session.said().empty());
}

TEST(GivingSessions, AReplicaThatHoldsAVersionOrDoesNotAskIsGivenNothing) {
  for (const bool holds : {false, true}) {
    GivingSession giving(made());
    Hello joins = giving.joiner();
    joins.held_is_vouched = joins.tip_is_vouched = holds;
    joins.takes_bytes = holds;
    (void)giving.session.hear(M::kHello, joins);
    EXPECT_FALSE(giving.session.is_at<session_stage::HasParent>()) << holds;
  }
}

TEST(GivingSessions, APinIsNotPassed) {
  GivingSession giving(made());
  Hello joins = giving.joiner();
  joins.pin = 1;
  (void)giving.session.hear(M::kHello, joins);
  EXPECT_FALSE(giving.session.is_at<session_stage::HasParent>());
}

// A replica that passes updates on has nothing for those that were not sent to it for that, though
// it gives an anchor to another one just now.
TEST(GivingSessions, AReplicaGivesOnlyToThoseThatAsk) {
  for (const bool asks : {false, true}) {
    DrivenSession relay;
    SessionFeed feed;
    feed.schema_hash = kSchema;
    feed.store = &relay.store;
    feed.give = [] { return std::optional<UpdateRef>(update_of(0, 2, 1000, true)); };
    relay.context.find_feed = [&](const Hash128&) { return std::make_shared<SessionFeed>(feed); };
    Hello child = relay.hello(0);
    child.held_is_vouched = child.tip_is_vouched = false;
    child.takes_bytes = asks;
    EXPECT_EQ(relay.hear(M::kHello, child),
              (MessageTypes{M::kWelcome, asks ? M::kOffer : M::kRefusal}));
  }
}

TEST(GivingSessions, AReplicaThatGivesNothingRefuses) {
  DrivenSession relay;
  std::optional<UpdateRef> given(nullptr);
  SessionFeed feed;
  feed.schema_hash = kSchema;
  feed.store = &relay.store;
  feed.give = [&] { return given; };
  relay.context.find_feed = [&](const Hash128&) { return std::make_shared<SessionFeed>(feed); };
  Hello child = relay.hello(0);
  child.held_is_vouched = child.tip_is_vouched = false;
  child.takes_bytes = true;
  EXPECT_EQ(relay.hear(M::kHello, child), MessageTypes{M::kWelcome});  // it is being made
  given.reset();
  relay.machine->serve(relay.now);
  EXPECT_EQ(relay.said(), MessageTypes{M::kRefusal});
  EXPECT_EQ(parse_refusal(relay.last_content)->code, Code::kWrongBase);
}

// --- the replica's machine ---

const std::vector<std::byte> kGiven(100);

class GivenReplica : public DrivenReplica {
 public:
  explicit GivenReplica(bool is_placed = true) {
    (void)welcome(kPublisher);
    if (is_placed) place();
    forget();
  }
  void place() {
    const net::NetAddress address{net::NetAddress::Family::kIpv4, 4711, {}};
    (void)hear(kPublisher, M::kParent, Parent{1, address, "p", {}, true});
    (void)welcome(kParent);
  }
  Status vouch(std::uint64_t version, std::uint32_t placement = 1) {
    Identity told = identity(version);
    told.placement = placement;
    return hear(kPublisher, M::kIdentity, told);
  }
  static Commit anchor(std::uint64_t version) {
    Commit made = commit(0, version, kGiven.size());
    made.stream_digest = *leaf_digest(kGiven);
    return made;
  }
  Status give_all(const Commit& commit) {
    const ChunkHead head{commit.version, 0};
    const Buffer place = machine->destination(kParent, head, kGiven.size());
    std::ranges::copy(kGiven, place.bytes().begin());
    SPARCL_RETURN_IF_ERROR(machine->on_chunk(kParent, head, kGiven.size(), place.size() > 0, now));
    return machine->on_end(kParent, {0, commit.version});
  }
  Code orphaned() {
    const Result<Orphan> orphan = parse_orphan(last_content());
    return orphan.ok() ? orphan->code : Code::kInternalError;
  }
};

TEST(GivenReplicas, SayThatTheyTakeAllBytesUnlessTheyWereMisled) {
  GivenReplica replica;
  EXPECT_TRUE(replica.machine->hello(kParent, {}).takes_bytes);
  EXPECT_FALSE(replica.machine->hello(kPublisher, {}).takes_bytes);  // these options say no
}

TEST(GivenReplicas, TakeWhatHasTheIdentitysVersion) {
  GivenReplica replica;
  ASSERT_TRUE(replica.vouch(2).ok());
  ASSERT_TRUE(replica.offer(kParent, GivenReplica::anchor(2)).ok());
  EXPECT_FALSE(replica.was_asked<replica_action::PassOn>());
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kParent, M::kRequest}}));
  ASSERT_TRUE(replica.give_all(GivenReplica::anchor(2)).ok());
  EXPECT_EQ(replica.machine->staged(), 1U);
  ASSERT_TRUE(replica.machine->begin_applying().expected.has_value());
  (void)replica.machine->on_applied(0);
  EXPECT_EQ(replica.machine->held(), state_of(2));
  EXPECT_TRUE(replica.machine->holds_published());
}

TEST(GivenReplicas, WaitForTheIdentity) {
  GivenReplica replica;
  ASSERT_TRUE(replica.offer(kParent, GivenReplica::anchor(2)).ok());
  EXPECT_TRUE(replica.said().empty());
  replica.now = replica.publisher.heard_at = replica.parent.heard_at = 1.8;
  replica.machine->on_tick(replica.now);
  EXPECT_TRUE(replica.said().empty());
  ASSERT_TRUE(replica.vouch(2).ok());
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kParent, M::kRequest}}));
}

// Whatever it offers: an update, another version, another epoch.
TEST(GivenReplicas, TakeNothingElseThatIsNotAnnounced) {
  Commit other_epoch = GivenReplica::anchor(2);
  other_epoch.epoch = 4;
  Commit empty = GivenReplica::anchor(2);
  empty.stream_bytes = 0;
  for (const Commit& other :
       {GivenReplica::anchor(3), GivenReplica::commit(1, 2), other_epoch, empty}) {
    GivenReplica replica;
    ASSERT_TRUE(replica.vouch(2).ok());
    ASSERT_TRUE(replica.offer(kParent, other).ok());
    EXPECT_TRUE(replica.said().empty());
    replica.now = replica.parent.heard_at = replica.publisher.heard_at = 3;
    replica.machine->on_tick(replica.now);
    EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, M::kOrphan}}));
    EXPECT_EQ(replica.orphaned(), Code::kTimeout);
  }
}

TEST(GivenReplicas, RefuseMoreBytesThanTheModelCanHave) {
  GivenReplica replica;
  ASSERT_TRUE(replica.vouch(2).ok());
  Commit huge = GivenReplica::anchor(2);
  huge.stream_bytes = (1 << 20) + 1;
  EXPECT_EQ(replica.offer(kParent, huge).code(), Code::kCorrupt);
}

TEST(GivenReplicas, LeaveAGiverThatOffersNothingInTime) {
  for (const bool is_vouched : {false, true}) {
    GivenReplica replica;
    ASSERT_TRUE(!is_vouched || replica.vouch(2).ok());
    replica.now = replica.parent.heard_at = 1.9;
    replica.machine->on_tick(replica.now);
    EXPECT_TRUE(replica.said().empty());
    replica.now = replica.parent.heard_at = 2.1;
    replica.machine->on_tick(replica.now);
    EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, M::kOrphan}}));
    // Without an identity the giver may not be to blame.
    EXPECT_EQ(replica.orphaned(), is_vouched ? Code::kTimeout : Code::kWrongBase);
  }
}

TEST(GivenReplicas, LeaveAGiverThatFallsSilentHalfWay) {
  GivenReplica replica;
  ASSERT_TRUE(replica.vouch(2).ok());
  ASSERT_TRUE(replica.offer(kParent, GivenReplica::anchor(2)).ok());
  replica.forget();
  for (const double now : {1.1, 1.5, 1.7}) {
    replica.now = replica.parent.heard_at = now;
    replica.machine->on_tick(now);
  }
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, M::kOrphan}}));
  EXPECT_EQ(replica.orphaned(), Code::kTimeout);
}

TEST(GivenReplicas, PassOverAnIdentityOfAnotherPlacement) {
  GivenReplica replica;
  ASSERT_TRUE(replica.vouch(2, 9).ok());
  ASSERT_TRUE(replica.offer(kParent, GivenReplica::anchor(2)).ok());
  EXPECT_TRUE(replica.said().empty());
  GivenReplica alone(false);
  ASSERT_TRUE(alone.vouch(2).ok());
  EXPECT_FALSE(alone.machine->may_compare());
}

TEST(GivenReplicas, RefuseAFloodOfIdentities) {
  GivenReplica replica;
  for (std::uint64_t i = 0; i < replica_phase::Giver::kMaxIdentities; ++i)
    ASSERT_TRUE(replica.vouch(i + 2).ok());
  EXPECT_EQ(replica.vouch(99).code(), Code::kCorrupt);
}

TEST(GivenReplicas, TakeNoGiftOnceTheyHoldAVersion) {
  GivenReplica replica(false);
  replica.stage(DrivenReplica::commit(0, 1));
  replica.apply();
  replica.place();
  replica.forget();
  ASSERT_TRUE(replica.vouch(2).ok());
  ASSERT_TRUE(replica.offer(kParent, GivenReplica::anchor(2)).ok());
  EXPECT_TRUE(replica.said().empty());
}

// In place the arrays hold what came; with two sets they are as before.
TEST(GivenReplicas, BlameTheGiverOfOtherBytes) {
  for (const bool in_place : {false, true}) {
    GivenReplica replica;
    (void)replica.vouch(2);
    (void)replica.offer(kParent, GivenReplica::anchor(2));
    (void)replica.give_all(GivenReplica::anchor(2));
    (void)replica.machine->begin_applying();
    replica.forget();
    replica.machine->on_not_applied(Status(Code::kCorrupt, "SHA-256"), in_place, 1);
    EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, M::kOrphan}}));
    EXPECT_EQ(replica.orphaned(), Code::kCorrupt);
    EXPECT_EQ(replica.machine->must_begin_anew(), in_place);
    EXPECT_FALSE(replica.machine->holds_published());
    EXPECT_EQ(replica.machine->held().hash, state_of(in_place ? 2 : 1).hash);
  }
}

// Nothing has checked what came of the giver.
TEST(GivenReplicas, TakeThePublishersBytesFromTheFirstOne) {
  GivenReplica replica;
  (void)replica.vouch(2);
  (void)replica.offer(kParent, GivenReplica::anchor(2));
  const ChunkHead head{2, 0};
  ASSERT_EQ(replica.machine->destination(kParent, head, 100).size(), 100U);
  ASSERT_TRUE(replica.machine->on_chunk(kParent, head, 100, true, 1).ok());
  replica.machine->on_parted(kParent, Status(Code::kRemoteError, "gone"), false, 1);
  replica.parent.ready = false;
  replica.forget();
  ASSERT_TRUE(replica.offer(kPublisher, GivenReplica::anchor(2)).ok());
  EXPECT_TRUE(replica.was_asked<replica_action::PassOn>());
  EXPECT_FALSE(replica.was_asked<replica_action::Withdraw>());
  EXPECT_EQ(replica.machine->incoming()->received_bytes(), 0U);
  ASSERT_TRUE(replica.give(kPublisher, GivenReplica::anchor(2)).ok());
  EXPECT_FALSE(replica.machine->begin_applying().expected.has_value());
}

}  // namespace
}  // namespace sparcl::replication
