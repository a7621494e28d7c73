// Epochs of publishers whose clocks are wrong, and of those that replicas know.

#include "src/replication/publisher_epoch.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "src/replication/record_file.hpp"
#include "tests/replication/rogue_support.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

constexpr std::uint64_t kSecond = 1'000'000'000, kDay = 24 * 3600 * kSecond;
constexpr std::uint64_t kToday = 20'000 * kDay;
WallClock fixed_clock(std::uint64_t now) {
  return [now] { return now; };
}
PublisherOptions with_clock(std::uint64_t now, const std::string& state = "") {
  PublisherOptions options = local_options();
  options.clock = fixed_clock(now);
  options.state_path = state;
  return options;
}

TEST(PublisherEpoch, IsLaterThanThatOfTheLifeBefore) {
  const TempFolder folder;
  const std::string path = folder / "state";
  EXPECT_EQ(PublisherEpoch(path, fixed_clock(kToday + 60 * kSecond)).value(),
            kToday + 60 * kSecond);
  EXPECT_EQ(PublisherEpoch(path, fixed_clock(kToday)).value(),
            kToday + 60 * kSecond + 1);  // the clock is right again
  EXPECT_EQ(PublisherEpoch(path, fixed_clock(0)).value(), kToday + 60 * kSecond + 2);
  EXPECT_EQ(PublisherEpoch(path, fixed_clock(kToday + kDay)).value(), kToday + kDay);
}

TEST(PublisherEpoch, GoesOnWithoutItsFile) {
  const TempFolder folder;
  const std::string path = folder / "state";
  PublisherEpoch(path, fixed_clock(kToday + kDay));
  const std::string whole = read_text(path);
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string("epoch 7\n"), std::string()}) {
    write_text(path, damaged);
    EXPECT_EQ(PublisherEpoch(path, fixed_clock(kToday)).value(), kToday);
    EXPECT_EQ(PublisherEpoch(path, fixed_clock(0)).value(), kToday + 1) << "it was written anew";
  }
  EXPECT_EQ(PublisherEpoch(folder / "none/state", fixed_clock(kToday)).value(), kToday);
  EXPECT_EQ(PublisherEpoch("/proc/self/status", fixed_clock(kToday)).value(), kToday);
}

TEST(PublisherEpoch, UnsignedEpochsCountUpToAYearAndWithPauses) {
  PublisherEpoch epoch("", fixed_clock(kToday));
  const auto word = [&](std::uint64_t of, double now) {
    return epoch.learn({of, 1, {}}, "m", nullptr, now);
  };
  EXPECT_FALSE(*word(kToday, 0));
  EXPECT_EQ(word(kToday + 366 * kDay, 0).status().code(), Code::kUnauthorized);
  EXPECT_EQ(word(UINT64_MAX, 0).status().code(), Code::kUnauthorized);
  EXPECT_EQ(epoch.value(), kToday);
  ASSERT_TRUE(*word(kToday + kDay, 0));
  EXPECT_EQ(epoch.value(), kToday + kDay + 1);
  EXPECT_FALSE(*word(kToday + kDay, 0)) << "others that held the same";
  double now = 0, pause = 1;
  for (int i = 0; i < 10; ++i, pause *= 2) {
    const std::uint64_t next = epoch.value() + 1;
    EXPECT_EQ(word(next, now + 0.99 * pause).status().code(), Code::kRemoteError) << pause;
    now += pause;
    EXPECT_TRUE(*word(next, now)) << pause;
  }
}

TEST(PublisherEpoch, ASigningPublisherBelievesItsOwnSignatureAlone) {
  const trust::SigningKey key = trust::key_of(trust::kVectors[0]),
                          other = trust::key_of(trust::kVectors[1]);
  const auto latest = [](const trust::SigningKey& signer, std::uint64_t epoch,
                         const std::string& model) {
    Offer offer;
    offer.commit.model_id = model;
    offer.commit.epoch = epoch;
    offer.commit.version = 3;
    offer.signatures = {{signer.public_key(), signer.sign(serialise(offer.commit))}};
    return LatestHeld{epoch, 3, offer};
  };
  std::vector<trust::SigningKey> one;
  one.push_back(trust::key_of(trust::kVectors[0]));
  const trust::SigningKeys keys(std::move(one));
  PublisherEpoch epoch("", fixed_clock(kToday));
  const auto learn = [&](const LatestHeld& held) { return epoch.learn(held, "m", &keys, 0); };
  EXPECT_EQ(learn({kToday + 1, 3, {}}).status().code(), Code::kUnauthorized);
  EXPECT_EQ(learn(latest(other, kToday + 1, "m")).status().code(), Code::kUnauthorized);
  const Status of_another = learn(latest(key, kToday + 1, "another")).status();
  EXPECT_EQ(of_another.code(), Code::kMismatch);
  EXPECT_NE(std::string(of_another.message()).find("its record is of the model 'another'"),
            std::string::npos)
      << of_another.message();
  LatestHeld claims_more = latest(key, kToday + 1, "m");
  claims_more.epoch = kToday + 2;
  EXPECT_EQ(learn(claims_more).status().code(), Code::kUnauthorized);
  EXPECT_EQ(epoch.value(), kToday);
  EXPECT_TRUE(*learn(latest(key, kToday + 1000 * kDay, "m")))
      << "what was signed counts, however late";
  EXPECT_TRUE(*learn(latest(key, kToday + 1001 * kDay, "m"))) << "and at once";
}

// The first life's clock was ahead, the second one's is right, and nothing was kept: replicas are
// followed all the same.
void expect_followed(PublisherOptions first, PublisherOptions second,
                     const SubscriberOptions& subscribing) {
  SmallModel source, copies[2] = {SmallModel(7), SmallModel(8)};
  auto publisher = open_publisher(source, first);
  second.listen = publisher->address();
  ASSERT_TRUE(publisher->publish(5).ok());
  std::unique_ptr<Subscriber> replicas[2];
  for (int i = 0; i < 2; ++i) {
    replicas[i] = open_replica(copies[i], second.listen, subscribing);
    ASSERT_TRUE(replicas[i]->next(20).ok());
  }
  publisher = nullptr;
  publisher = open_publisher(source, second);
  for (std::uint64_t version = 1; version <= 3; ++version) {
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
    for (int i = 0; i < 2; ++i) {
      for (int tries = 0; tries < 50 && copies[i].hash() != source.hash(); ++tries)
        (void)replicas[i]->next(20).ok();
      EXPECT_EQ(copies[i].hash(), source.hash()) << replicas[i]->trouble().message();
    }
  }
  EXPECT_EQ(publisher->wait(3, 2, 20).message(), "");
}

TEST(PublisherEpoch, ReplicasFollowAPublisherWhoseClockWasAhead) {
  for (const std::uint64_t ahead : {60 * kSecond, 300 * kDay}) {
    expect_followed(with_clock(kToday + ahead), with_clock(kToday), replica_options());
  }
}

TEST(PublisherEpoch, SoDoThoseThatTrustItsKeyHoweverFarAhead) {
  const TempFolder folder;
  ASSERT_TRUE(trust::SigningKey::generate()->save(folder / "key").ok());
  PublisherOptions first = with_clock(kToday + 2000 * kDay), second = with_clock(kToday);
  first.key_path = second.key_path = folder / "key";
  SubscriberOptions trusting = replica_options();
  trusting.trust_path = folder / "key.pub";
  expect_followed(first, second, trusting);
}

// The epoch rises while others are served: they get what they miss as before, and no bytes twice.
TEST(PublisherEpoch, AReplicaOfALaterLifeCostsOthersNoAnchor) {
  SmallModel source, old_copy(7), copy(8);
  auto publisher = open_publisher(source, with_clock(kToday + kDay));
  ASSERT_TRUE(publisher->publish(1).ok());
  auto old_replica = open_replica(old_copy, publisher->address());
  ASSERT_TRUE(old_replica->next(20).ok());
  publisher = nullptr;
  publisher =
      open_publisher(source, with_clock(kToday));  // elsewhere: the old one does not find it
  ASSERT_TRUE(publisher->publish(1).ok());
  const auto replica = open_replica(copy, publisher->address());
  ASSERT_TRUE(replica->next(20).ok());
  source.step(2);
  ASSERT_TRUE(publisher->publish(2).ok());
  ASSERT_TRUE(publisher->wait_staged(2, 1, 20).ok());
  Hello late = hello_of(source);
  late.latest = {kToday + kDay, 1, {}};
  RawPeer peer = RawPeer::connect(publisher->address());
  peer.say(MessageType::kHello, late);
  ASSERT_EQ(peer.hear(), MessageType::kWelcome);
  EXPECT_EQ(parse_welcome(peer.link().content())->epoch, kToday + kDay + 1);
  source.step(3);
  ASSERT_TRUE(publisher->publish(3).ok());
  while (replica->versions().held < 3) {
    const Result<Subscriber::Swap> swap = replica->next(20);
    ASSERT_TRUE(swap.ok() || swap.status().code() == Code::kRemoteError) << swap.status().message();
    if (swap.ok()) {
      EXPECT_FALSE(swap->by_anchor);
    }
  }
  EXPECT_EQ(copy.hash(), source.hash());
  EXPECT_EQ(replica->latest().epoch, kToday + kDay + 1);
}

// Somebody answered at the publisher's address while it was away, and claimed an epoch after which
// there is none.
TEST(PublisherEpoch, AForgedEpochLocksNoReplicaOut) {
  SmallModel source, copy(7), forged(3);
  auto publisher = open_publisher(forged);
  ASSERT_TRUE(publisher->publish(9).ok());
  Recorded update = record_update(*publisher, {0, SmallModel(1).hash()}, copy.view().schema_hash);
  publisher = nullptr;
  for (const std::uint64_t epoch : {std::uint64_t{INT64_MAX}, UINT64_MAX}) {
    std::unique_ptr<Subscriber> replica;
    std::string address;
    {
      RawPublisher rogue;
      address = rogue.address();
      replica = open_replica(copy, address);
      RawPeer peer = rogue.accept();
      update.offer.commit.epoch = epoch;
      peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", epoch, 9, 5000, "rogue", {}});
      replay(peer, update);
      ASSERT_TRUE(replica->next(20).ok());
    }
    PublisherOptions options = local_options();
    options.listen = address;
    source.step(epoch);
    publisher = open_publisher(source, options);
    ASSERT_TRUE(publisher->publish(1).ok());
    for (int tries = 0; tries < 50 && copy.hash() != source.hash(); ++tries)
      (void)replica->next(20).ok();
    EXPECT_EQ(copy.hash(), source.hash()) << replica->trouble().message();
    publisher = nullptr;
  }
}

// A publisher that does not hear its own epoch, as it is years ahead of the replica's clock, says
// the newest version again.
TEST(PublisherEpoch, ACurrentReplicaTakesItsVersionAgain) {
  SmallModel source, copy(7);
  Recorded update;
  {
    const auto publisher = open_publisher(source);
    ASSERT_TRUE(publisher->publish(1).ok());
    update = record_update(*publisher, {0, copy.hash()}, copy.view().schema_hash);
  }
  RawPublisher ahead;
  const auto replica = open_replica(copy, ahead.address());
  const Welcome welcome{kProtocolVersion, kModelId, update.offer.commit.epoch, 1, 5000,
                        "a test",         {}};
  {
    RawPeer peer = ahead.accept();
    peer.say(MessageType::kWelcome, welcome);
    replay(peer, update);
    ASSERT_TRUE(replica->next(20).ok());
  }
  RawPeer peer = ahead.accept();
  peer.say(MessageType::kWelcome, welcome);
  Commit label = update.offer.commit;
  label.is_anchor = false;
  label.base_hash = label.target_hash;
  label = sealed(label, {});
  peer.say(MessageType::kOffer, Offer{label, {}});
  ASSERT_TRUE(hear_request(peer));
  peer.say(MessageType::kCommit, CommitNote{{0, 1}});
  EXPECT_TRUE(replica->next(20).ok()) << replica->trouble().message();
  EXPECT_EQ(replica->versions().held, 1U);
}

TEST(PublisherEpoch, AnUnsignedEpochHarmsNoOtherPeer) {
  SmallModel source, copy(7);
  const auto publisher = open_publisher(source, with_clock(kToday));
  ASSERT_TRUE(publisher->publish(1).ok());
  const auto replica = open_replica(copy, publisher->address());
  ASSERT_TRUE(replica->next(20).ok());
  for (const std::uint64_t epoch : {kToday + 1000 * kDay, std::uint64_t{INT64_MAX}, UINT64_MAX}) {
    Hello hello = hello_of(source);
    hello.latest = {epoch, 1, {}};
    RawPeer peer = RawPeer::connect(publisher->address());
    peer.say(MessageType::kHello, hello);
    ASSERT_EQ(peer.hear(), MessageType::kRefusal);
    EXPECT_EQ(parse_refusal(peer.link().content())->code, Code::kUnauthorized);
    RawPeer asks = RawPeer::connect(publisher->address());
    asks.say(MessageType::kModelQuery, hello.latest);
    EXPECT_EQ(asks.hear(), MessageType::kRefusal);
  }
  EXPECT_EQ(publisher->count(1).connected, 1);
  EXPECT_EQ(replica->trouble().message(), "");
}

}  // namespace
}  // namespace sparcl::replication
