// The phases of a session, and each message that is refused in each of them.

#include "src/replication/session_machine.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/replication/driven_session.hpp"

namespace sparcl::replication {
namespace {

// --- the phases ---

TEST(SessionMachine, AHelloOfKnownTensorsIsWelcomedAndOffered) {
  DrivenSession session;
  EXPECT_TRUE(session.is<session_phase::Greeting>());
  EXPECT_EQ(session.hear(MessageType::kHello, session.hello()),
            (MessageTypes{MessageType::kWelcome, MessageType::kOffer}));
  EXPECT_TRUE(session.is_at<session_stage::Offered>());
  EXPECT_STREQ(session.machine->state(), "offered");
}

TEST(SessionMachine, AHelloOfUnknownTensorsIsAskedForItsList) {
  DrivenSession session;
  session.await_list();
  ASSERT_TRUE(session.is<session_phase::AwaitsList>());
  EXPECT_TRUE(session.machine->is_listening());
  EXPECT_EQ(session.hear(MessageType::kSchema, std::vector<std::byte>(3)), MessageTypes{});
  ASSERT_TRUE(session.is<session_phase::HasList>());
  EXPECT_FALSE(session.machine->is_listening());
  EXPECT_EQ(session.machine->list()->size(), 3U);
  session.machine->on_feed(session.context.find_feed(kSchema));
  EXPECT_TRUE(session.is<session_phase::Serving>());
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kWelcome});
}

TEST(SessionMachine, AListWithoutAFeedIsRefused) {
  DrivenSession session;
  session.await_list();
  (void)session.hear(MessageType::kSchema, std::vector<std::byte>(3));
  session.machine->on_feed(Status(Code::kMismatch, "not published"));
  EXPECT_TRUE(session.is<session_phase::Leaving>());
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kRefusal});
}

TEST(SessionMachine, AnErrorThatARetryCuresCountsUnderItsOwnReason) {
  const auto count = [](const DrivenSession& session, RefusalReason reason) {
    return session.context.counts->by_reason[static_cast<std::size_t>(reason)];
  };
  DrivenSession early;
  early.context.learn_epoch = [](const LatestHeld&) {
    return Status(Code::kRemoteError, "the publisher takes a later term first");
  };
  (void)early.hear(MessageType::kHello, early.hello());
  EXPECT_EQ(count(early, RefusalReason::kRetry), 1U);
  EXPECT_EQ(count(early, RefusalReason::kBudget), 0U);
  DrivenSession long_list;
  long_list.await_list();
  (void)long_list.hear(MessageType::kSchema, std::vector<std::byte>(3));
  long_list.machine->on_feed(no_room(*long_list.context.budget));
  EXPECT_EQ(count(long_list, RefusalReason::kBudget), 1U);
  EXPECT_EQ(count(long_list, RefusalReason::kRetry), 0U);
}

TEST(SessionMachine, AQueryIsAnsweredAndTheSessionEndsOnceTheAnswerIsSent) {
  for (const MessageType query : {MessageType::kStatusQuery, MessageType::kModelQuery}) {
    DrivenSession session;
    EXPECT_EQ(session.hear(query).size(), 1U);
    EXPECT_TRUE(session.is<session_phase::Leaving>());
    EXPECT_FALSE(session.machine->is_listening());
    session.machine->on_sent(1, session.now);
    EXPECT_TRUE(session.is<session_phase::Leaving>());
    session.machine->on_sent(std::uint64_t{1} << 20, session.now);  // more than there was
  }
  DrivenSession session;
  (void)session.hear(MessageType::kStatusQuery);
  session.machine->on_sent(kHeadBytes + 2, session.now);
  EXPECT_TRUE(session.is<session_phase::Over>());
}

TEST(SessionMachine, AHelloThatDoesNotFitIsRefused) {
  const auto refused = [](const std::function<void(DrivenSession&, Hello&)>& spoil) {
    DrivenSession session;
    Hello hello = session.hello();
    spoil(session, hello);
    EXPECT_EQ(session.hear(MessageType::kHello, hello), MessageTypes{MessageType::kRefusal});
    EXPECT_TRUE(session.is<session_phase::Leaving>());
    return parse_refusal(session.last_content)->code;
  };
  EXPECT_EQ(refused([](auto&, Hello& hello) { hello.protocol = 1; }), Code::kUnsupported);
  EXPECT_EQ(refused([](auto&, Hello& hello) { ++hello.wire_version; }), Code::kUnsupported);
  EXPECT_EQ(refused([](auto&, Hello& hello) { hello.model_id = "x"; }), Code::kMismatch);
  EXPECT_EQ(refused([](DrivenSession& session, Hello&) { session.context.closed = "empty"; }),
            Code::kRemoteError);
  EXPECT_EQ(refused([](DrivenSession& session, Hello&) { session.context.max_replicas = 0; }),
            Code::kRemoteError);
  EXPECT_EQ(refused([](DrivenSession& session, Hello& hello) {
              session.context.max_schema_bytes = nullptr;
              hello.schema_hash = {};
            }),
            Code::kMismatch);
  EXPECT_EQ(refused([](DrivenSession& session, Hello&) {
              session.context.learn_epoch = [](const LatestHeld&) {
                return Status(Code::kUnauthorized, "an epoch that does not count");
              };
            }),
            Code::kUnauthorized);
}

TEST(SessionMachine, AWorkerOfAnAggregatorIsToldWhereItIs) {
  DrivenSession session;
  EXPECT_EQ(session.hear(MessageType::kEnroll, std::vector<std::byte>(80)),
            MessageTypes{MessageType::kRefusal});
  EXPECT_NE(parse_refusal(session.last_content)->text.find("address for workers"),
            std::string::npos);
}

TEST(SessionMachine, SilenceEndsEachPhase) {
  const auto at_end = [](const std::function<void(DrivenSession&)>& begin, double silence) {
    DrivenSession session;
    begin(session);
    (void)session.said();
    session.machine->on_sent(0, session.now);
    (void)session.machine->on_tick(0, session.now + silence - 0.01);
    EXPECT_FALSE(session.machine->is_over());
    (void)session.machine->on_tick(0, session.now + silence + 0.01);
    return session.machine->is_over();
  };
  EXPECT_TRUE(at_end([](DrivenSession&) {}, 4));  // born at 0
  EXPECT_TRUE(at_end([](DrivenSession& session) { session.await_list(); }, 4));
  EXPECT_TRUE(at_end([](DrivenSession& session) { session.say_hello(); }, 5));
  EXPECT_TRUE(
      at_end([](DrivenSession& session) { (void)session.hear(MessageType::kStatusQuery); }, 5));
}

TEST(SessionMachine, ALifeSignIsDueAfterAPause) {
  DrivenSession session;
  session.become_idle();
  session.machine->on_sent(std::uint64_t{1} << 20, session.now);
  EXPECT_FALSE(session.machine->on_tick(std::uint64_t{1} << 20, session.now + 0.9));
  EXPECT_TRUE(session.machine->on_tick(std::uint64_t{1} << 20, session.now + 1.1));
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kAlive});
}

TEST(SessionMachine, SignsOfLifeAloneDoNotKeepAnOffer) {
  DrivenSession session;
  session.say_hello();
  for (session.now = 2; session.now < 14 && !session.machine->is_over(); session.now += 1) {
    (void)session.hear(MessageType::kAlive, Alive{1});
    (void)session.machine->on_tick(std::uint64_t{1} << 20, session.now);
  }
  EXPECT_TRUE(session.machine->is_over());
  EXPECT_GT(session.now, 10);
  EXPECT_EQ(session.context.counts->lost, 1U);
}

TEST(SessionMachine, AGoodbyeOrARefusalEndsEachPhase) {
  using Begin = void (DrivenSession::*)();
  for (const Begin begin : {&DrivenSession::await_list, &DrivenSession::say_hello,
                            &DrivenSession::await_damage, &DrivenSession::become_idle}) {
    for (const bool is_bye : {true, false}) {
      DrivenSession session;
      (session.*begin)();
      const bool was_replica = session.machine->is_replica();
      if (is_bye) (void)session.hear(MessageType::kBye, Bye());
      if (!is_bye) (void)session.hear(MessageType::kRefusal, Refusal{Code::kMismatch, "why"});
      EXPECT_TRUE(session.machine->is_over());
      EXPECT_TRUE(session.is_closed);
      EXPECT_EQ(session.departures, is_bye && was_replica ? 1 : 0);
      EXPECT_EQ(session.context.counts->lost, 0U);
    }
  }
}

TEST(SessionMachine, AReplicaThatBeginsAnewHasNotDeparted) {
  DrivenSession session;
  session.become_idle();
  (void)session.hear(MessageType::kBye, Bye{true});
  EXPECT_TRUE(session.machine->is_over());
  EXPECT_EQ(session.departures, 0);
}

TEST(SessionMachine, LeavingSaysGoodbyeToReplicasAlone) {
  DrivenSession session;
  session.become_idle();
  session.machine->on_leave();
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kBye});
  EXPECT_TRUE(session.machine->is_over());
  DrivenSession unauthenticated;
  unauthenticated.machine->on_leave();
  EXPECT_EQ(unauthenticated.said(), MessageTypes{});
  EXPECT_TRUE(unauthenticated.is_closed);
}

TEST(SessionMachine, AMessageWithoutRoomIsRefused) {
  DrivenSession session;
  session.await_list();
  session.machine->on_no_room();
  EXPECT_TRUE(session.is<session_phase::Leaving>());
  EXPECT_EQ(session.said(), MessageTypes{MessageType::kRefusal});
}

// --- each message in each phase and stage ---

struct Situation {
  const char* name;
  std::function<void(DrivenSession&)> begin;
  std::set<MessageType> taken;  // by the type alone: damaged content is refused, too
};

std::vector<Situation> situations() {
  using M = MessageType;
  const std::set<M> end{M::kRefusal, M::kBye};
  const auto with = [](std::set<M> types, const std::set<M>& more) {
    types.insert(more.begin(), more.end());
    return types;
  };
  const std::set<M> query = with(end, {M::kStatusQuery, M::kModelQuery});
  // A REQUEST is taken in the stages Offered and Sending, in which it names the update.
  const std::set<M> replica = with(
      end, {M::kAck, M::kNack, M::kPin, M::kOrphan, M::kAlive, M::kSideWanted});
  return {
      {"Greeting", [](DrivenSession&) {}, with(query, {M::kHello})},
      {"AwaitsList", &DrivenSession::await_list, with(query, {M::kSchema})},
      {"Idle", &DrivenSession::become_idle, replica},
      {"Offered", &DrivenSession::say_hello, with(replica, {M::kRequest})},
      {"Sending", &DrivenSession::start_sending, with(replica, {M::kRequest})},
      {"HasParent", &DrivenSession::take_a_parent, replica},
      {"AwaitsDamage", &DrivenSession::await_damage, with(end, {M::kDamage})},
      {"AwaitsRepair", &DrivenSession::await_repair, replica},
      {"AwaitsDigest", &DrivenSession::await_digest, replica},
      {"AwaitsAnswer", &DrivenSession::await_answer, with(replica, {M::kBlocks})},
  };
}

// A sound message of this type.
std::vector<std::byte> content_of(DrivenSession& session, MessageType type) {
  using M = MessageType;
  const bool is_third = session.is_at<session_stage::Sending>();
  switch (type) {
    case M::kHello:
      return serialise(session.hello());
    case M::kRequest:
      return serialise(Request{{is_third ? 2U : 1U, is_third ? 3U : 2U}, 0, true});
    case M::kAck:
      return serialise(Ack{AckStage::kHeld, version_of(1), true});
    case M::kNack:
      return serialise(Nack{{1, 2}, Code::kCorrupt, false, "why"});
    case M::kAlive:
      return serialise(Alive{1});
    case M::kPin:
      return serialise(Pin{9});
    case M::kOrphan:
      return serialise(Orphan{7, version_of(1), 0, Code::kSuccess, "", true});
    case M::kRefusal:
      return serialise(Refusal{Code::kMismatch, "why"});
    case M::kDamage:
      return serialise(session.damage());
    case M::kBlocks:
      return serialise(BlockDigests{version_of(1), {{}, {}}});
    case M::kSchema:
      return std::vector<std::byte>(3);
    case M::kSideWanted:
      return std::vector<std::byte>(32);
    default:
      return {};
  }
}

// In the clear, and in a session that has proven itself to a holder of the secret.
TEST(SessionMachine, EachMessageIsTakenOrRefusedInEachPhase) {
  for (const Situation& situation : situations()) {
    for (int number = 1; number <= 2 * static_cast<int>(kLastMessageType); ++number) {
      const bool is_secured = number > static_cast<int>(kLastMessageType);
      const auto type = static_cast<MessageType>(
          is_secured ? number - static_cast<int>(kLastMessageType) : number);
      DrivenSession session;
      if (is_secured) session.secure(trust::Role::kReplicate);
      EXPECT_EQ(session.said(), is_secured ? MessageTypes{MessageType::kProof} : MessageTypes{});
      situation.begin(session);
      const std::vector<MessageType> said = session.hear(type, content_of(session, type));
      const bool is_refused = std::ranges::count(said, MessageType::kRefusal) > 0;
      EXPECT_EQ(is_refused, !situation.taken.contains(type)) << situation.name << " " << number;
      EXPECT_EQ(is_refused, session.context.counts->refused > 0) << situation.name << " " << number;
      if (is_refused) {
        EXPECT_TRUE(session.is<session_phase::Leaving>()) << situation.name << " " << number;
        EXPECT_EQ(parse_refusal(session.last_content)->code, Code::kCorrupt)
            << situation.name << " " << number;
      }
    }
  }
}

// The proof goes out before anything else, and its role allows the status alone.
TEST(SessionMachine, AnObserverIsRefusedAllButTheStatus) {
  for (int number = 1; number <= static_cast<int>(kLastMessageType); ++number) {
    const auto type = static_cast<MessageType>(number);
    if (type == MessageType::kRefusal || type == MessageType::kBye) continue;  // they end it
    DrivenSession session;
    session.secure(trust::Role::kObserve);
    EXPECT_EQ(session.said(), MessageTypes{MessageType::kProof});
    const std::vector<MessageType> said = session.hear(type, content_of(session, type));
    const bool is_status = type == MessageType::kStatusQuery;
    EXPECT_EQ(said, MessageTypes{is_status ? MessageType::kStatusReply : MessageType::kRefusal})
        << number;
    const auto by_role = session.context.counts->by_reason[1];
    EXPECT_EQ(by_role, is_status ? 0U : 1U) << kRefusalNames[1];
  }
}

TEST(SessionMachine, DamagedContentIsRefusedInEachPhase) {
  const std::vector<std::byte> damaged(3, std::byte{0xff});
  for (const Situation& situation : situations()) {
    for (const MessageType type : situation.taken) {
      if (type == MessageType::kSchema) continue;  // any bytes may be a list
      DrivenSession session;
      situation.begin(session);
      (void)session.hear(type, damaged);
      EXPECT_TRUE(session.is<session_phase::Leaving>())
          << situation.name << " " << static_cast<int>(type);
    }
  }
}

}  // namespace
}  // namespace sparcl::replication
