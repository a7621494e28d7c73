// How old the version of a replica may be: a man in the middle who holds all news back, who answers
// with old words, or who is slow.

#include "src/replication/freshness.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "tests/replication/driven_replica.hpp"
#include "tests/replication/driven_session.hpp"
#include "tests/replication/rogue_support.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool is_refused_there(const Status& status) {
  return status.code() == Code::kCorrupt &&
         std::string(status.message()).find("out of place") != std::string::npos;
}

Fresh answer(const Challenge& challenge, std::uint64_t newest) {
  Fresh made;
  made.model_id = kDrivenReplicaModel;
  made.epoch = kDrivenEpoch;
  made.schema_hash = kDrivenSchema;
  made.newest = state_of(newest);
  made.challenge = challenge;
  return made;
}

TEST(Freshness, IsTheTimeSinceTheHeldVersionWasTheNewest) {
  Freshness freshness(10);
  freshness.on_tick({}, true, 100);
  EXPECT_EQ(freshness.age_s(103), 3) << "since it began";
  const Challenge first = **freshness.next_challenge(101);
  EXPECT_FALSE(*freshness.next_challenge(102)) << "a quarter of the age later";
  ASSERT_TRUE(freshness.on_answer(answer(first, 7)));
  freshness.on_tick(state_of(6), true, 104);
  EXPECT_EQ(freshness.age_s(104), 4) << "version 7 is not held";
  EXPECT_FALSE(freshness.is_stale(110));
  EXPECT_TRUE(freshness.is_stale(110.1));
  freshness.on_tick(state_of(7), true, 108);
  EXPECT_EQ(freshness.age_s(108), 7) << "it was the newest when the challenge was sent";
  const Challenge second = **freshness.next_challenge(108);
  EXPECT_NE(first, second);
  ASSERT_TRUE(freshness.on_answer(answer(second, 9)));
  freshness.on_tick({8, state_of(8).hash}, true, 109);
  EXPECT_EQ(freshness.age_s(109), 8);
  freshness.on_tick({10, state_of(10).hash}, true, 110);
  EXPECT_EQ(freshness.age_s(110), 2) << "what is later than the newest of then is as good";
}

// A replica that is always a version behind, but not for long, is not stale.
TEST(Freshness, ALagThatIsShorterThanTheAgeIsNone) {
  Freshness freshness(10);
  for (int i = 0; i < 100; ++i) {
    const double now = 3 * i;
    const std::uint64_t newest = static_cast<std::uint64_t>(i) + 2;
    const Result<std::optional<Challenge>> challenge = freshness.next_challenge(now);
    ASSERT_TRUE(challenge.ok() && *challenge) << i;
    ASSERT_TRUE(freshness.on_answer(answer(**challenge, newest)));
    freshness.on_tick(state_of(newest - 2), true, now);
    EXPECT_FALSE(freshness.is_stale(now + 3)) << i;
  }
}

TEST(Freshness, AnOldOrForeignAnswerIsNone) {
  Freshness freshness(10);
  const Challenge first = **freshness.next_challenge(0);
  const Challenge second = **freshness.next_challenge(3);
  EXPECT_FALSE(freshness.on_answer(answer(first, 1))) << "it may be any time old";
  EXPECT_FALSE(freshness.on_answer(answer({}, 1)));
  EXPECT_TRUE(freshness.on_answer(answer(second, 1)));
  EXPECT_FALSE(freshness.on_answer(answer(second, 1))) << "twice";
  // Another life of the publisher may count its versions from 1 again.
  freshness.on_tick({}, true, 3);
  freshness.on_new_epoch();
  const Challenge third = **freshness.next_challenge(5);
  ASSERT_TRUE(freshness.on_answer(answer(third, 2)));
  freshness.on_tick({50, {1, 1}}, false, 6);
  EXPECT_EQ(freshness.age_s(6), 3) << "version 50 of the life before is not later than version 2";
}

TEST(Freshness, TheMachineAsksItsPublisherAndSaysOnceThatItIsStale) {
  DrivenReplica replica(false, 10);
  replica.publish();
  ReplicaMachine& machine = *replica.machine;
  machine.on_tick(replica.now);
  const auto asked = [&] {
    machine.on_tick(replica.now);
    for (const DrivenReplica::Said& each : replica.said()) {
      if (each.type == MessageType::kChallenge) return *parse_challenge(replica.last_content());
    }
    return Challenge{};
  };
  replica.now += 3;
  const Challenge challenge = asked();
  ASSERT_NE(challenge, Challenge{});
  EXPECT_TRUE(is_refused_there(replica.hear(kParent, MessageType::kFresh, answer(challenge, 1))));
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kFresh, answer(challenge, 1)).ok());
  Fresh foreign = answer(challenge, 1);
  foreign.epoch = kDrivenEpoch - 1;
  EXPECT_EQ(replica.hear(kPublisher, MessageType::kFresh, foreign).code(), Code::kMismatch);
  replica.now += 9;
  machine.on_tick(replica.now);
  EXPECT_FALSE(machine.has_reason());
  EXPECT_TRUE(machine.take_age_report().ok());
  replica.now += 2;
  machine.on_tick(replica.now);
  EXPECT_TRUE(machine.has_reason()) << "next() is woken";
  const Status stale = machine.take_age_report();
  EXPECT_EQ(stale.code(), Code::kStale);
  EXPECT_THAT(stale.message(),
              AllOf(HasSubstr("version 1 was not known to be the newest for 11.0 s"),
                    HasSubstr("last word was of version 1")));
  machine.on_tick(replica.now + 1);
  EXPECT_TRUE(machine.take_age_report().ok()) << "it is not said with each call";
  EXPECT_EQ(machine.nothing_newer(1).code(), Code::kStale) << "but where nothing comes";
  machine.on_tick(replica.now + 11);
  EXPECT_EQ(machine.take_age_report().code(), Code::kStale);
  (void)machine.on_pin(1, {}, "");
  machine.on_tick(replica.now + 30);
  EXPECT_EQ(machine.nothing_newer(1).code(), Code::kTimeout) << "it stays there by its own choice";
}

class StaleReplica : public testing::Test {
 protected:
  void publish(Publisher& publisher) {
    source_.step(++version_);
    ASSERT_TRUE(publisher.publish(version_).ok());
  }
  SubscriberOptions options(double max_age_s) const {
    SubscriberOptions made = replica_options();
    made.max_age_s = max_age_s;
    made.silence_s = 0.5;
    return made;
  }
  SmallModel source_;
  std::uint64_t version_ = 0;
};

TEST_F(StaleReplica, IsNoneWhileItsPublisherAnswers) {
  const auto publisher = open_publisher(source_);
  publish(*publisher);
  SmallModel copy(3);
  const auto replica = open_replica(copy, publisher->address(), options(1));
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(replica->next(3).status().code(), Code::kTimeout) << "there is nothing newer";
  EXPECT_TRUE(replica->trouble().ok());
}

TEST_F(StaleReplica, IsNamedOnceThePublisherIsGone) {
  auto publisher = open_publisher(source_);
  publish(*publisher);
  SmallModel copy(3);
  const auto replica = open_replica(copy, publisher->address(), options(1));
  ASSERT_TRUE(replica->next(20).ok());
  publisher = nullptr;
  const double begin = net::monotonic_seconds();
  Status status;
  while (status.code() != Code::kStale && net::monotonic_seconds() < begin + 20)
    status = replica->next(5).status();
  EXPECT_EQ(status.code(), Code::kStale);
  EXPECT_THAT(status.message(), HasSubstr("publisher"));
  EXPECT_EQ(replica->trouble().code(), Code::kStale);
}

// A publisher's end that says that it is alive, and answers challenges with an old word.
TEST_F(StaleReplica, IsNotFooledByAReplayedAnswer) {
  test::TempFolder folder;
  SmallModel model(5);
  RawPublisher middle;
  SubscriberOptions wanted = options(1);
  const auto replica = open_replica(model, middle.address(), wanted);
  Hello hello;
  RawPeer peer = middle.accept(&hello);
  Welcome welcome;
  welcome.model_id = kModelId;
  welcome.epoch = 7;
  welcome.newest = 1;
  welcome.silence_ms = 5000;
  welcome.name = "a thief";
  peer.say(MessageType::kWelcome, welcome);
  std::optional<Fresh> old;
  const double begin = net::monotonic_seconds();
  Status status;
  std::thread user([&] {
    while (status.code() != Code::kStale && net::monotonic_seconds() < begin + 20)
      status = replica->next(0.2).status();
  });
  while (net::monotonic_seconds() < begin + 3) {
    peer.say(MessageType::kAlive, Alive{1});
    if (peer.hear(0.1) != MessageType::kChallenge) continue;
    if (!old) {  // the first answer may be a true one
      old.emplace();
      old->model_id = kModelId;
      old->epoch = 7;
      old->newest = {1, hello.held.hash};
      old->schema_hash = hello.schema_hash;
      old->challenge = *parse_challenge(peer.link().content());
    }
    peer.say(MessageType::kFresh, *old);
  }
  user.join();
  EXPECT_EQ(status.code(), Code::kStale) << status.message();
}

// A signature takes time: a peer gets one each tenth of a second, however often it asks.
TEST_F(StaleReplica, APublisherSignsNoFasterThanItLikes) {
  const auto publisher = open_publisher(source_);
  publish(*publisher);
  RawPeer peer = RawPeer::connect(publisher->address());
  peer.say(MessageType::kHello, hello_of(source_));
  ASSERT_EQ(peer.hear(), MessageType::kWelcome);
  const double begin = net::monotonic_seconds();
  int answers = 0;
  while (net::monotonic_seconds() < begin + 1) {
    Challenge challenge{};
    challenge[0] = std::byte{1};
    peer.link().queue(MessageType::kChallenge, std::span<const std::byte>(challenge));
    (void)peer.link().flush();
    if (peer.hear(0.005) == MessageType::kFresh) ++answers;
  }
  EXPECT_GE(answers, 1);
  EXPECT_LE(answers, 12);
}

}  // namespace
}  // namespace sparcl::replication
