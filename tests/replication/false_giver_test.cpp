// Replicas that are to give all bytes of what they hold, and give others, or nothing, or too late:
// nothing of that is ever a version, and the publisher gives the bytes.

#include <gtest/gtest.h>

#include "tests/replication/forged_state.hpp"
#include "tests/replication/lying_parent.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::TempFolder;

// A test plays the publisher and the giver of version 7.
class FalseGivers : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(forgery().is_found());
    source.step(99, 200'000);
    forgery().prepare(source.first_block());
    forged.copy_from(source);
    forgery().apply(forged.first_block());
    ASSERT_EQ(forged.hash(), source.hash());
    ASSERT_FALSE(forged.is_same_as(source));
    real = record(source);
    lie = record(forged);
    lie.offer.commit.epoch = real.offer.commit.epoch;
    SubscriberOptions options = replica_options();
    options.double_buffer = GetParam();
    options.shares_memory = false;
    replica = open_replica(copy, publisher_.address(), options);
    Hello hello;
    word.emplace(publisher_.accept(&hello));
    EXPECT_TRUE(hello.gives_bytes && hello.takes_bytes);
    port_ = hello.port;
    word->say(MessageType::kWelcome, welcome());
  }
  Recorded record(const SmallModel& model) const {
    const auto publisher = open_publisher(model, local_options());
    EXPECT_TRUE(publisher->publish(7).ok());
    return record_update(*publisher, {0, copy.hash()}, copy.view().schema_hash);
  }
  Welcome welcome() const {
    return {kProtocolVersion, kModelId, real.offer.commit.epoch, 7, 5000, "a test", {}};
  }
  RawPeer place() {
    word->say(MessageType::kParent,
              Parent{1,
                     net::resolve(*net::parse_host_port(giver_.address()))->front(),
                     "a giver",
                     {},
                     true});
    Identity identity = identity_of(source.view(), 7, real.offer.commit.epoch);
    identity.placement = 1;
    word->say(MessageType::kIdentity, identity);
    Hello hello;
    RawPeer child = giver_.accept(&hello);
    EXPECT_TRUE(hello.takes_bytes);
    child.say(MessageType::kWelcome, welcome());
    return child;
  }
  Orphan hear_orphan() {
    std::optional<MessageType> said = word->hear();
    while (said == MessageType::kAck || said == MessageType::kAlive) said = word->hear();
    EXPECT_EQ(said, MessageType::kOrphan);
    return said == MessageType::kOrphan ? *parse_orphan(word->link().content()) : Orphan{};
  }
  void expect_current() {
    const Result<Subscriber::Swap> swap = replica->next(20);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_EQ(std::memcmp(replica->array(0), source.first_block(), kBytes), 0);
  }

  bool hears_staged() {
    std::optional<MessageType> said = word->hear();
    while (said == MessageType::kAlive) said = word->hear();
    return said == MessageType::kAck &&
           parse_ack(word->link().content())->stage == AckStage::kStaged;
  }
  // The giver says that it is alive, and nothing else.
  bool keeps_alive_until_orphan(RawPeer& giver, Code why) {
    for (int i = 0; i < 100; ++i) {
      giver.say(MessageType::kAlive, Alive{7});
      const std::optional<MessageType> said = word->hear(0.05);
      if (said == MessageType::kOrphan) return parse_orphan(word->link().content())->code == why;
    }
    return false;
  }

  static constexpr std::size_t kBytes = 400'000;
  SmallModel source, forged, copy{1}, brought{1};
  Recorded real, lie;
  std::unique_ptr<Subscriber> replica;
  std::optional<RawPeer> word;
  RawPublisher publisher_, giver_;
  std::uint16_t port_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Sets, FalseGivers, ::testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "TwoSets" : "InPlace");
});

// The arrays make no difference.
class LateGivers : public FalseGivers {};
INSTANTIATE_TEST_SUITE_P(InPlace, LateGivers, ::testing::Values(false));

TEST_P(FalseGivers, AnHonestOneIsBelieved) {
  RawPeer giver = place();
  replay(giver, real);
  expect_current();
}

// Its bytes have the state hash of the version, and not its SHA-256.
TEST_P(FalseGivers, ForgedBytesAreNoVersion) {
  RawPeer giver = place();
  replay(giver, lie);
  const Result<Subscriber::Swap> swap = replica->next(20);
  ASSERT_FALSE(swap.ok());
  EXPECT_EQ(swap.status().code(), Code::kCorrupt);
  EXPECT_NE(swap.status().message().find("SHA-256"), std::string::npos);
  EXPECT_EQ(replica->versions().held, 0U);
  const bool is_untouched = std::memcmp(replica->array(0), brought.first_block(), kBytes) == 0;
  EXPECT_TRUE(is_untouched || !GetParam());
  EXPECT_EQ(hear_orphan().code, Code::kCorrupt);
  if (!GetParam()) {  // it begins anew, and wants no giver again
    Hello hello;
    word.emplace(publisher_.accept(&hello));
    EXPECT_FALSE(hello.takes_bytes || hello.held_is_vouched || hello.tip_is_vouched);
    word->say(MessageType::kWelcome, welcome());
  }
  word->say(MessageType::kOffer, real.offer);
  const std::optional<Request> request = hear_request(*word);
  ASSERT_TRUE(request);
  send_update(*word, real, *request);
  expect_current();
}

TEST_P(LateGivers, WhatIsNotCheckedIsPassedOnToNoReplica) {
  RawPeer giver = place();
  replay(giver, lie);
  ASSERT_TRUE(hears_staged());
  Hello child = hello_with({0, {1, 2}}, copy.view().schema_hash);
  child.held_is_vouched = child.tip_is_vouched = false;
  RawPeer peer = RawPeer::connect("127.0.0.1:" + std::to_string(port_));
  peer.say(MessageType::kHello, child);
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  EXPECT_NE(peer.hear(0.2), MessageType::kOffer);
}

TEST_P(LateGivers, OneThatGivesNothingIsLeft) {
  RawPeer giver = place();
  const double begin = net::monotonic_seconds();
  EXPECT_TRUE(keeps_alive_until_orphan(giver, Code::kTimeout));
  EXPECT_LT(net::monotonic_seconds() - begin, 10);
  replay(*word, real);
  expect_current();
}

// A byte now and then is no progress.
TEST_P(LateGivers, OneThatGivesSlowlyIsLeft) {
  RawPeer giver = place();
  giver.say(MessageType::kOffer, real.offer);
  ASSERT_TRUE(hear_request(giver));
  for (std::size_t i = 0; i < 5; ++i) {
    giver.link().queue_chunk({7, i}, real.bytes.slice(i, 1));
    (void)giver.link().flush();
    usleep(100'000);
  }
  EXPECT_TRUE(keeps_alive_until_orphan(giver, Code::kTimeout));
  replay(*word, real);
  expect_current();
}

TEST_P(LateGivers, OneThatDiesHalfWayIsReplacedByThePublisher) {
  {
    RawPeer giver = place();
    giver.say(MessageType::kOffer, real.offer);
    ASSERT_TRUE(hear_request(giver));
    giver.link().queue_chunk({7, 0}, real.bytes.slice(0, 1000));
    (void)giver.link().flush();
  }
  EXPECT_EQ(hear_orphan().code, Code::kRemoteError);
  replay(*word, real);
  expect_current();
}

// The whole way, signed or not: a replica of a true publisher gives forged bytes to another one.
TEST(FalseGiver, IsExpelledAndThePublisherGivesTheBytes) {
  const TempFolder folder;
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok() && key->save(folder / "key").ok());
  SmallModel source, forged;
  source.step(99, 200'000);
  forgery().prepare(source.first_block());
  forged.copy_from(source);
  forgery().apply(forged.first_block());
  for (const bool is_signed : {false, true}) {
    SmallModel copy(1);
    PublisherOptions options = local_options();
    if (is_signed) options.key_path = folder / "key";
    const auto publisher = open_publisher(source, options), liar = open_publisher(forged, options);
    ASSERT_TRUE(publisher->publish(7).ok() && liar->publish(7).ok());
    const HeldVersion none{0, copy.hash()};
    Recorded lie = record_update(*liar, none, copy.view().schema_hash);
    RawPublisher port;
    RawPeer giver = RawPeer::connect(publisher->address());
    Hello gives =
        hello_with(none, copy.view().schema_hash, net::parse_host_port(port.address())->port);
    gives.held_is_vouched = gives.tip_is_vouched = false;
    gives.gives_bytes = true;
    giver.say(MessageType::kHello, gives);
    EXPECT_EQ(giver.hear(), MessageType::kWelcome);
    const Commit real = record_update(giver).offer.commit;
    const HeldVersion held{7, real.target_hash};
    giver.say(MessageType::kAck, Ack{AckStage::kStaged, held, true});
    giver.say(MessageType::kAck, Ack{AckStage::kHeld, held, true});
    ASSERT_TRUE(publisher->wait(7, 1, 20).ok());

    SubscriberOptions joins = replica_options();
    joins.shares_memory = false;
    if (is_signed) joins.trust_path = folder / "key.pub";
    const auto replica = open_replica(copy, publisher->address(), joins);
    RawPeer child = port.accept();
    child.say(MessageType::kWelcome,
              Welcome{kProtocolVersion, kModelId, real.epoch, 7, 5000, "a giver", {}});
    lie.offer.commit.epoch = real.epoch;
    lie.offer.signatures.clear();
    replay(child, lie);
    EXPECT_EQ(replica->next(20).status().code(), Code::kCorrupt) << is_signed;
    EXPECT_EQ(replica->versions().held, 0U);
    const Result<Subscriber::Swap> swap = replica->next(20);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_TRUE(copy.is_same_as(source)) << is_signed;
    const auto status = nlohmann::json::parse(publisher->status());
    EXPECT_TRUE(status["replicas"][0]["expelled"].get<bool>()) << status.dump();
  }
}

}  // namespace
}  // namespace sparcl::replication
