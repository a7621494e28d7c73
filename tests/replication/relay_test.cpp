// Replicas that take updates from each other, and parents that die, fall silent, lie or stand
// still.

#include "src/replication/relay.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/replication/rogue_support.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using Json = nlohmann::json;

class Group {
 public:
  explicit Group(int fan_out = 0, double silence_s = 5, const std::string& key = "")
      : silence_s_(silence_s), key_(key) {
    PublisherOptions options = local_options();
    options.key_path = key;
    options.fan_out = fan_out;
    options.silence_s = silence_s;
    publisher_ = std::move(*Publisher::create(source_.view(), options));
    publish();
  }

  SmallModel& source() { return source_; }
  Publisher& publisher() { return *publisher_; }
  std::size_t size() const { return copies_.size(); }
  std::unique_ptr<Subscriber>& replica(std::size_t i) { return replicas_[i]; }
  std::uint64_t version() const { return version_; }

  void join(bool passes_on = true) {
    SubscriberOptions options = replica_options();
    options.passes_on = passes_on;
    options.gives_bytes = gives_bytes;
    if (!key_.empty()) options.trust_path = key_ + ".pub";
    options.shares_memory = false;  // or all would take updates from the publisher
    options.silence_s = silence_s_;
    options.sweep_s = sweep_s;
    copies_.push_back(std::make_unique<SmallModel>(7));
    replicas_.push_back(
        std::move(*Subscriber::create(copies_.back()->view(), publisher_->address(), options)));
  }
  // One after the other.
  void make_chain(int count) {
    for (int i = 0; i < count; ++i) {
      join();
      expect_current();
    }
    ASSERT_TRUE(settles(1)) << publisher().status();
  }
  void publish() {
    source_.step(version_ + 1);
    ASSERT_TRUE(publisher_->publish(++version_).ok());
  }
  void publish_the_same() { ASSERT_TRUE(publisher_->publish(++version_).ok()); }
  // All that are there hold the newest version.
  void expect_current() {
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      if (replicas_[i] == nullptr) continue;
      while (replicas_[i]->versions().held < version_) {
        const Result<Subscriber::Swap> swap = replicas_[i]->next(20);
        ASSERT_TRUE(swap.ok()) << i << ": " << swap.status().message() << publisher_->status();
      }
      EXPECT_EQ(copies_[i]->hash(), source_.hash()) << i;
    }
  }
  Json status() const { return Json::parse(publisher_->status()); }
  // How many take their updates from the publisher.
  std::size_t served() const {
    std::size_t count = 0;
    const Json said = status();
    for (const Json& each : said["replicas"]) count += each["from"] == "publisher" ? 1U : 0U;
    return count;
  }
  // To the replica that came last, by the publisher itself.
  std::uint64_t bytes_to_last() const { return status()["replicas"].back()["bytes_sent"]; }
  // All are known to hold the newest version.
  void expect_known() {
    ASSERT_TRUE(publisher_->wait(version_, static_cast<int>(there()), 20).ok());
  }
  SmallModel& copy(std::size_t i) { return *copies_[i]; }
  double sweep_s = 300;
  bool gives_bytes = true;

  bool settles(std::size_t count, double seconds = 20) {
    const double until = net::monotonic_seconds() + seconds;
    while (net::monotonic_seconds() < until) {
      if (served() == count && status()["replicas"].size() == there()) return true;
      usleep(5'000);
    }
    return false;
  }
  std::size_t there() const {
    std::size_t count = 0;
    for (const auto& each : replicas_) count += each != nullptr ? 1U : 0U;
    return count;
  }
  std::uint64_t bytes_sent() const {
    std::uint64_t bytes = 0;
    const Json said = status();
    for (const Json& each : said["replicas"]) bytes += each["bytes_sent"].get<std::uint64_t>();
    return bytes;
  }

 private:
  double silence_s_;
  std::string key_;
  SmallModel source_;
  std::unique_ptr<Publisher> publisher_;
  std::vector<std::unique_ptr<SmallModel>> copies_;
  std::vector<std::unique_ptr<Subscriber>> replicas_;
  std::uint64_t version_ = 0;
};

TEST(Relay, APublisherSendsToOneOfEight) {
  Group group;
  group.make_chain(8);
  const std::uint64_t before = group.bytes_sent();
  std::uint64_t update_bytes = 0;
  for (int i = 0; i < 10; ++i) {
    group.source().step(1000 + static_cast<std::uint64_t>(i), 20'000);
    const auto report =
        group.publisher().publish(group.version() + 100 + static_cast<std::uint64_t>(i));
    ASSERT_TRUE(report.ok());
    update_bytes += report->stream_bytes;
    for (std::size_t r = 0; r < 8; ++r) ASSERT_TRUE(group.replica(r)->next(20).ok());
  }
  ASSERT_TRUE(group.publisher().wait(group.version() + 109, 8, 20).ok());
  EXPECT_GE(group.bytes_sent() - before, update_bytes);
  EXPECT_LT(group.bytes_sent() - before, update_bytes * 3 / 2);
}

TEST(Relay, ThoseThatComeTogetherTakeTheAnchorFromEachOther) {
  Group group;
  for (int i = 0; i < 6; ++i) group.join();
  group.expect_current();
  ASSERT_TRUE(group.settles(1)) << group.publisher().status();
  group.publish();
  group.expect_current();
}

// It may be checked before the publisher says that it is whole: who waits must hear of it all the
// same.
TEST(Relay, OneThatWaitsIsWokenByEveryUpdate) {
  Group group;
  for (int i = 0; i < 3; ++i) group.join();
  group.expect_current();
  for (int i = 0; i < 30; ++i) {
    std::vector<std::thread> waiting;
    for (std::size_t r = 0; r < 3; ++r)
      waiting.emplace_back([&, r] { EXPECT_TRUE(group.replica(r)->next(60).ok()) << r; });
    usleep(2'000);
    const double begin = net::monotonic_seconds();
    group.publish();
    for (std::thread& each : waiting) each.join();
    EXPECT_LT(net::monotonic_seconds() - begin, 30);  // half of the time that they would wait
  }
}

TEST(Relay, AVersionWithTheSameBytesReachesAll) {
  Group group;
  group.make_chain(4);
  for (int i = 0; i < 3; ++i) {
    group.publish_the_same();
    group.expect_current();
    group.publish();
    group.expect_current();
  }
}

TEST(Relay, WhoeverLeavesTheOthersGoOn) {
  for (const int fan_out : {0, 2}) {
    Group group(fan_out);
    for (int i = 0; i < 7; ++i) group.join();
    group.expect_current();
    std::mt19937_64 random(3);
    for (int round = 0; round < 12; ++round) {
      const std::size_t which = random() % group.size();
      if (group.replica(which) != nullptr && group.there() > 2) group.replica(which) = nullptr;
      if (random() % 2 == 0) group.join();
      group.publish();
      group.expect_current();
    }
  }
}

TEST(Relay, OneThatDoesNotApplyIsLeftByThoseBelowIt) {
  Group group;
  group.make_chain(4);
  const std::uint64_t stuck = group.replica(1)->versions().held;
  for (int i = 0; i < 6; ++i) {  // two wait there, the others at the publisher
    group.publish();
    for (const std::size_t r : {0U, 2U, 3U}) {
      while (group.replica(r)->versions().held < group.version())
        ASSERT_TRUE(group.replica(r)->next(20).ok()) << r << " " << i;
    }
  }
  EXPECT_EQ(group.replica(1)->versions().held, stuck);
  group.expect_current();
}

TEST(Relay, OneThatPassesNothingOnIsTheLast) {
  Group group;
  group.join(false);
  group.expect_current();
  group.join();
  group.expect_current();
  ASSERT_TRUE(group.settles(1)) << group.publisher().status();
  group.publish();
  group.expect_current();
}

// --- what replicas give of what they hold ---

constexpr std::uint64_t kFewBytes = 4000;  // messages, and no tensors

// Enough changes for an anchor to be no small thing.
void make_all_bytes_many(Group& group) {
  group.source().step(99, 200'000);
  group.publish();
}

TEST(RelayGives, AllBytesToReplicasThatComeLater) {
  Group group;
  make_all_bytes_many(group);
  group.make_chain(2);
  for (int i = 0; i < 3; ++i) {
    group.expect_known();
    group.join();
    group.expect_current();
    EXPECT_LT(group.bytes_to_last(), kFewBytes) << i;
  }
  ASSERT_TRUE(group.settles(1)) << group.publisher().status();
  group.publish();
  group.expect_current();
}

// The publisher's chain leads on from there.
TEST(RelayGives, AVersionThatIsNotTheNewest) {
  Group group;
  make_all_bytes_many(group);
  group.make_chain(1);
  group.expect_known();
  ASSERT_TRUE(group.replica(0)->pin(group.version()).ok());
  group.publish();
  group.join();
  const Result<Subscriber::Swap> swap = group.replica(1)->next(20);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_TRUE(swap->by_anchor);
  while (group.replica(1)->versions().held < group.version())
    ASSERT_TRUE(group.replica(1)->next(20).ok());
  EXPECT_LT(group.bytes_to_last(), group.copy(1).view().map->byte_count() / 2);
  EXPECT_EQ(group.copy(1).hash(), group.source().hash());
}

TEST(RelayGives, NothingIfEitherSideIsNotTo) {
  for (const bool giver_may : {false, true}) {
    Group group;
    make_all_bytes_many(group);
    group.gives_bytes = giver_may;
    group.make_chain(1);
    group.expect_known();
    group.gives_bytes = !giver_may;
    group.join();
    group.expect_current();
    EXPECT_GT(group.bytes_to_last(), 100'000U) << giver_may;
  }
}

// The signed IDENTITY stands for the signature that a giver's bytes cannot have.
TEST(RelayGives, SignedVersionsToo) {
  const test::TempFolder folder;
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok() && key->save(folder / "key").ok());
  Group group(0, 5, folder / "key");
  make_all_bytes_many(group);
  group.make_chain(1);
  group.expect_known();
  group.join();
  group.expect_current();
  EXPECT_LT(group.bytes_to_last(), kFewBytes);
  group.publish();
  group.expect_current();
}

TEST(RelayGives, WhoeverDiesMeanwhileTheOtherComesToHoldIt) {
  for (unsigned round = 0; round < 8; ++round) {
    Group group;
    make_all_bytes_many(group);
    group.make_chain(1);
    group.expect_known();
    group.join();
    usleep(round * 1'000);
    group.replica(0) = nullptr;
    group.expect_current();
  }
}

// The replica that was damaged is repaired once it has found that.
TEST(RelayGives, NothingThatIsDamaged) {
  Group group;
  group.sweep_s = 1e6;  // not by itself
  make_all_bytes_many(group);
  group.make_chain(1);
  group.expect_known();
  group.copy(0).poke(70'000, 0x7001);
  group.join();
  while (group.replica(1)->versions().held < group.version())
    ASSERT_TRUE(group.replica(1)->next(20).ok());
  EXPECT_TRUE(group.copy(1).is_same_as(group.source()));
  EXPECT_EQ(group.replica(0)->next(20).status().code(), Code::kCorrupt);
  group.expect_current();
}

TEST(Relay, AReplicaComesWhileVersionsComeOneAfterTheOther) {
  Group group;
  make_all_bytes_many(group);
  group.make_chain(2);
  for (int i = 0; i < 20; ++i) {
    if (i % 5 == 0) group.join();
    group.publish();
    group.expect_current();
  }
}

// Accidental damage goes no further: a replica passes on the bytes that it was sent, and the sweep
// finds the damage.
TEST(Relay, OneThatIsDamagedPassesOnWhatThePublisherSent) {
  Group group;
  group.sweep_s = 0.02;
  make_all_bytes_many(group);
  group.make_chain(3);
  group.expect_known();
  group.copy(0).poke(70'000, 0x7001);
  group.publish();
  for (std::size_t r = 0; r < 3; ++r) {
    while (group.replica(r)->versions().held < group.version()) (void)group.replica(r)->next(20);
  }
  for (const std::size_t r : {1U, 2U}) EXPECT_TRUE(group.copy(r).is_same_as(group.source())) << r;
  const double until = net::monotonic_seconds() + 20;
  while (!group.copy(0).is_same_as(group.source()) && net::monotonic_seconds() < until)
    (void)group.replica(0)->next(0.1);
  EXPECT_TRUE(group.copy(0).is_same_as(group.source()));
}

// --- a test plays the parent ---

// A replica that says that it passes updates on, at a RawPublisher, and takes what it is sent.
class FalseParent {
 public:
  explicit FalseParent(Group& group)
      : group_(group), peer_(RawPeer::connect(group.publisher().address())) {
    const std::uint16_t port = net::parse_host_port(port_.address())->port;
    peer_.say(MessageType::kHello, hello_of(group.source(), port));
    EXPECT_EQ(peer_.hear(), MessageType::kWelcome);
    EXPECT_EQ(peer_.hear(), MessageType::kOffer);  // a label: it has the bytes
    label_ = *parse_offer(peer_.link().content());
    peer_.say(MessageType::kRequest,
              Request{{label_.commit.base_version, label_.commit.version}, 0});
    EXPECT_EQ(peer_.hear(), MessageType::kCommit);
    const HeldVersion held{label_.commit.version, label_.commit.target_hash};
    peer_.say(MessageType::kAck, Ack{AckStage::kStaged, held, true});
    peer_.say(MessageType::kAck, Ack{AckStage::kHeld, held, true});
  }
  RawPeer& upstream() { return peer_; }
  RawPeer accept_child() { return port_.accept(); }
  const Offer& label() const { return label_; }
  Welcome welcome() const {
    return {kProtocolVersion, "m", label_.commit.epoch, label_.commit.version, 5000,
            "a false parent", {}};
  }

 private:
  Group& group_;
  RawPublisher port_;
  RawPeer peer_;
  Offer label_;
};

TEST(Relay, AParentThatSaysNothingIsLeft) {
  Group group;
  FalseParent parent(group);
  group.join();
  group.expect_current();
  RawPeer child = parent.accept_child();  // it was placed there
  group.publish();
  group.expect_current();
  child.say(MessageType::kWelcome, parent.welcome());  // nobody listens
}

TEST(Relay, AParentThatIsSilentAfterItsWelcomeIsLeft) {
  Group group;
  FalseParent parent(group);
  group.join();
  group.expect_current();
  RawPeer child = parent.accept_child();
  child.say(MessageType::kWelcome, parent.welcome());
  group.publish();
  group.expect_current();
  EXPECT_TRUE(child.is_dropped());
}

TEST(Relay, WhatAParentMakesUpIsNotApplied) {
  Group group;
  FalseParent parent(group);
  group.join();
  group.expect_current();
  RawPeer child = parent.accept_child();
  child.say(MessageType::kWelcome, parent.welcome());
  Offer offer = parent.label();
  offer.commit.version += 1;
  offer.commit.base_version = parent.label().commit.version;
  offer.commit = sealed(offer.commit, noise_of(1000).bytes());
  child.say(MessageType::kOffer, offer);
  EXPECT_FALSE(hear_request(child));
  EXPECT_TRUE(child.is_dropped());
  group.publish();
  group.expect_current();
}

// The publisher's word may come later than a parent's offer: until then nothing is asked for.
TEST(Relay, WhatAParentOffersWaitsForThePublishersWord) {
  SmallModel source(99), copy;
  const auto real = std::move(*Publisher::create(source.view(), local_options()));
  ASSERT_TRUE(real->publish(7).ok());
  const Recorded anchor = record_update(*real, {0, copy.hash()}, copy.view().schema_hash);
  ASSERT_TRUE(anchor.offer.commit.is_anchor);

  RawPublisher publisher, parent;
  const auto replica =
      std::move(*Subscriber::create(copy.view(), publisher.address(), replica_options()));
  RawPeer word = publisher.accept();
  const Welcome welcome{kProtocolVersion, kModelId, anchor.offer.commit.epoch, 7, 5000,
                        "the publisher",  {}};
  word.say(MessageType::kWelcome, welcome);
  word.say(MessageType::kParent,
           Parent{1, net::resolve(*net::parse_host_port(parent.address()))->front(), "a parent"});
  RawPeer child = parent.accept();
  child.say(MessageType::kWelcome, welcome);
  child.say(MessageType::kOffer, anchor.offer);
  EXPECT_FALSE(hear_request(child, 0.2));
  word.say(MessageType::kAnnounce, anchor.offer);
  const std::optional<Request> request = hear_request(child);
  ASSERT_TRUE(request);
  send_update(child, anchor, *request);
  EXPECT_TRUE(replica->next(RawPeer::kPatience).ok());
  EXPECT_TRUE(copy.is_same_as(source));
}

// A sound update to weights that the publisher has never had.
TEST(Relay, WeightsThatThePublisherDidNotAnnounceAreNotApplied) {
  Group group;
  FalseParent parent(group);
  group.join();
  group.expect_current();
  RawPeer child = parent.accept_child();

  SmallModel evil(99);
  const auto rogue = std::move(*Publisher::create(evil.view(), local_options()));
  ASSERT_TRUE(rogue->publish(1000).ok());
  Recorded anchor =
      record_update(*rogue, {0, group.source().hash()}, group.source().view().schema_hash);
  anchor.offer.commit.epoch = parent.label().commit.epoch;

  child.say(MessageType::kWelcome, parent.welcome());
  child.say(MessageType::kOffer, anchor.offer);
  EXPECT_FALSE(hear_request(child));
  EXPECT_TRUE(child.is_dropped());
  EXPECT_FALSE(group.replica(0)->next(0.1).ok());
  group.publish();
  group.expect_current();
  EXPECT_LT(group.replica(0)->versions().newest, 1000U);
}

// The newest version itself, as if of a publisher that no other one comes after: it would never be
// listened to again.
TEST(Relay, AParentDoesNotSayWhosePublisherItIs) {
  Group group;
  FalseParent parent(group);
  group.join();
  group.expect_current();
  RawPeer child = parent.accept_child();
  child.say(MessageType::kWelcome, parent.welcome());
  Offer offer = parent.label();
  offer.commit.version += 1;
  offer.commit.epoch = UINT64_MAX;
  child.say(MessageType::kOffer, offer);
  EXPECT_TRUE(child.is_dropped());
  group.publish();
  group.expect_current();
}

// What it does is no reason for the replica to give up: the publisher goes on.
TEST(Relay, WhatAParentDoesIsNoErrorOfTheReplica) {
  Group group;
  FalseParent parent(group);
  group.join();
  group.expect_current();
  RawPeer child = parent.accept_child();
  child.say(MessageType::kWelcome, parent.welcome());
  Offer offer = parent.label();
  offer.commit.version += 98;
  child.say(MessageType::kOffer, offer);
  const auto end = net::monotonic_seconds() + 1.5;
  while (net::monotonic_seconds() < end)
    EXPECT_EQ(group.replica(0)->next(0.1).status().code(), Code::kTimeout);
  group.publish();
  group.expect_current();
}

TEST(Relay, OldVersionsAndGarbageFromAParentAreRefused) {
  for (int kind = 0; kind < 3; ++kind) {
    Group group;
    FalseParent parent(group);
    group.join();
    group.expect_current();
    RawPeer child = parent.accept_child();
    child.say(MessageType::kWelcome, parent.welcome());
    if (kind == 0) child.say(MessageType::kOffer, parent.label());
    if (kind == 1) child.send_bytes(std::vector<std::byte>(100, std::byte{0x5a}));
    if (kind == 2) child.say(MessageType::kParent, Parent{9, net::loopback_address(1), "nowhere"});
    EXPECT_TRUE(child.is_dropped()) << kind;
    group.publish();
    group.expect_current();
  }
}

TEST(Relay, AChildThatDoesNotReadHoldsNobodyUp) {
  Group group;
  group.make_chain(2);
  FalseParent deaf(group);
  ASSERT_EQ(deaf.upstream().hear(), MessageType::kParent);  // it is placed behind the two
  const Result<Parent> placed = parse_parent(deaf.upstream().link().content());
  ASSERT_TRUE(placed.ok() && placed->address);
  RawPeer child = RawPeer::connect(to_text(*placed->address));
  child.say(MessageType::kHello, hello_of(group.source(), 0));  // and it hears nothing
  for (int i = 0; i < 10; ++i) {
    group.source().step(100 + static_cast<std::uint64_t>(i), 100'000);
    group.publish();
    group.expect_current();
  }
}

}  // namespace
}  // namespace sparcl::replication
