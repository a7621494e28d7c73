// Which replicas a publisher calls lost: each one by name, and none that goes by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/base/log.hpp"
#include "src/replication/query.hpp"
#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

template <class Condition>
bool becomes_true(const Condition& condition) {
  const double until = net::monotonic_seconds() + RawPeer::kPatience;
  while (!condition() && net::monotonic_seconds() < until) usleep(5000);
  return condition();
}

// What is logged while `work` runs.
template <class Work>
std::string logged(const Work& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

TEST(ReplicaLoss, EachReplicaOfAHostIsNamedAndCounted) {
  if (!log_enabled(LogLevel::kWarn)) GTEST_SKIP() << "SPARCL_DEBUG turns warnings off";
  const SmallModel model;
  const auto publisher = open_publisher(model);
  ASSERT_TRUE(publisher->publish(1).ok());
  const std::string log = logged([&] {
    for (std::uint64_t i = 1; i <= 3; ++i) {
      RawPeer peer = RawPeer::connect(publisher->address());
      Hello hello = hello_of(model);
      hello.name = fmt::format("host h, pid {}", 100 + i);
      peer.say(MessageType::kHello, hello);
      ASSERT_EQ(peer.hear(), MessageType::kWelcome);
      peer.link().close();
      EXPECT_TRUE(becomes_true([&] { return figure(*publisher, "replicas_lost") == i; }));
    }
  });
  for (const char* pid : {"pid 101", "pid 102", "pid 103"}) EXPECT_THAT(log, HasSubstr(pid));
}

TEST(ReplicaLoss, AReplicaThatGoesBackOrLeavesIsNotLost) {
  SmallModel model;
  const auto publisher = open_publisher(model);
  ASSERT_TRUE(publisher->publish(1).ok());
  const SmallModel held(7);
  auto replica = open_replica(held, publisher->address());
  ASSERT_TRUE(replica->next(RawPeer::kPatience).ok());
  model.step(1);
  ASSERT_TRUE(publisher->publish(2).ok());
  ASSERT_TRUE(replica->next(RawPeer::kPatience).ok());
  ASSERT_TRUE(publisher->wait(2, 1, RawPeer::kPatience).ok());
  const std::string log = logged([&] {
    ASSERT_TRUE(replica->pin(1).ok());
    const Result<Subscriber::Swap> back = replica->next(RawPeer::kPatience);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_TRUE(back->went_back);
    EXPECT_TRUE(becomes_true(
        [&] { return publisher->count(1).holding == 1 && publisher->count(2).holding == 0; }));
    replica = nullptr;
    EXPECT_TRUE(becomes_true([&] { return publisher->count(1).connected == 0; }));
  });
  EXPECT_THAT(log, Not(HasSubstr("gone")));
  EXPECT_EQ(figure(*publisher, "replicas_lost"), 0U);
  EXPECT_EQ(publisher->count(1).left, 1) << "what it held counts";
  EXPECT_EQ(publisher->count(2).left, 0) << "it went back";
}

TEST(ReplicaLoss, AGoodbyeOfEitherKindIsNoLoss) {
  const SmallModel model;
  const auto publisher = open_publisher(model);
  ASSERT_TRUE(publisher->publish(1).ok());
  for (const bool begins_anew : {false, true}) {
    RawPeer peer = RawPeer::connect(publisher->address());
    Hello hello = hello_of(model);
    hello.name = begins_anew ? "host h, pid 1" : "host h, pid 2";
    hello.held = hello.tip = {1, model.hash()};
    peer.say(MessageType::kHello, hello);
    ASSERT_EQ(peer.hear(), MessageType::kWelcome);
    (void)record_update(peer);  // a label: what it was not sent does not count
    peer.say(MessageType::kAck, Ack{AckStage::kHeld, hello.held, true});
    ASSERT_TRUE(publisher->wait(1, begins_anew ? 2 : 1, 20).ok());
    peer.say(MessageType::kBye, Bye{begins_anew});
    EXPECT_TRUE(becomes_true([&] { return publisher->count(1).connected == 0; }));
  }
  EXPECT_EQ(publisher->count(1).left, 1) << "what one that begins anew has said counts no more";
  EXPECT_EQ(figure(*publisher, "replicas_lost"), 0U);
}

TEST(PeerWarnings, SummariseThoseThatHaveNoLineOfTheirOwn) {
  if (!log_enabled(LogLevel::kWarn)) GTEST_SKIP() << "SPARCL_DEBUG turns warnings off";
  PeerWarnings warnings;
  warnings.tick(10);
  const std::string lines = logged([&] {
    for (int i = 0; i < 50; ++i)
      warnings.say("replicas are gone", fmt::format("pid {}.", i),
                   fmt::format("replica pid {}.", i));
    for (int i = 0; i < 10; ++i) warnings.say("replicas are gone", "pid 0.", "replica pid 0.");
    warnings.tick(60);
  });
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 20) << lines;
  const std::string summary = logged([&] { warnings.tick(71); });
  EXPECT_THAT(summary, HasSubstr("30 more replicas are gone: pid 20.; pid 21.;"));
  EXPECT_THAT(summary, HasSubstr("pid 39.; and 10 others"));
  EXPECT_EQ(logged([&] { warnings.tick(200); }), "");
}

TEST(ReplicaSlots, AReplicaThatIsStartedAnewHasItsPredecessorsLabel) {
  ReplicaSlots slots;
  EXPECT_EQ(slots.take("host a, pid 1", 1).slot, 0U);
  EXPECT_EQ(slots.take("host a, pid 2", 2).slot, 1U);
  EXPECT_EQ(slots.take("host b, pid 2", 3).slot, 0U);
  EXPECT_EQ(slots.take("host a, pid 3, name actor", 4).slot, 0U);
  ReplicaLabel first = slots.take("host a, pid 1", 5);
  EXPECT_EQ(first.slot, 0U) << "it is back before its old connection has ended";
  slots.give_back(first, 1);
  EXPECT_EQ(slots.take("host a, pid 9", 6).slot, 2U);
  slots.give_back(first, 5);
  EXPECT_EQ(slots.take("host a, pid 10", 7).slot, 0U);
}

TEST(ReplicaSlots, ANameThatIsEmptyIsNone) {
  ReplicaSlots slots;
  const ReplicaLabel label = slots.take("host h, pid 7, name ", 1);
  EXPECT_EQ(label.name, "replica");
  slots.give_back(label, 1);
  EXPECT_EQ(slots.take("host h, pid 8, name ", 2).slot, 0U);
}

TEST(ReplicaSlots, ALabelHasNoPid) {
  const ReplicaLabel plain = label_of("host h1, pid 4711, replica 2"),
                     named = label_of("host h1, pid 4711, name actor 7"),
                     other = label_of("anything");
  EXPECT_EQ(plain.name + "@" + plain.host, "replica@h1");
  EXPECT_EQ(named.name + "@" + named.host, "actor 7@h1");
  EXPECT_EQ(other.name + "@" + other.host, "replica@anything");
}

// Not the resolver: the address needs none.
TEST(NoPublisher, IsSaidAsARefusedConnection) {
  const std::string address = RawPublisher().address();  // nobody listens there any more
  const Status asked = query_status(address, RawPeer::kPatience).status();
  EXPECT_THAT(asked.message(),
              HasSubstr(address + ": connection refused: no publisher listens there"));
  const SmallModel held;
  const auto replica = open_replica(held, address);
  EXPECT_TRUE(becomes_true([&] { return !replica->trouble().ok(); }));
  EXPECT_THAT(replica->trouble().message(),
              HasSubstr("connection refused: no publisher listens there"));
}

}  // namespace
}  // namespace sparcl::replication
