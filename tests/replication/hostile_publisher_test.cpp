// What rogues say to a replica, and thieves of signed updates: nothing is applied.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/replication/rogue_support.hpp"

namespace sparcl::replication {
namespace {

struct Told {
  Status status;
  Hash128 before, after;
};

// What a replica makes of one offer and, if it asks for it, of `bytes`.
template <class Play>
Told play_publisher(const SubscriberOptions& options, Play&& play) {
  SmallModel copy(1);
  RawPublisher publisher;
  const Hash128 before = copy.hash();
  const auto replica = open_replica(copy, publisher.address(), options);
  Hello hello;
  RawPeer peer = publisher.accept(&hello);
  EXPECT_EQ(hello.held.hash, before);
  peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", {}});
  play(peer, hello);
  const Result<Subscriber::Swap> swap = replica->next(0.5);
  return {swap.status(), before, copy.hash()};
}

Commit commit_of(const Hello& hello) {
  Commit commit;
  commit.model_id = kModelId;
  commit.epoch = 1;
  commit.version = 1;
  commit.is_anchor = true;
  commit.schema_hash = hello.schema_hash;
  commit.target_hash = {1, 1};
  return sealed(commit, noise_of(1000).bytes());
}

TEST(HostilePublisher, AnOfferOfATerabyteIsRefusedBeforeAnyByte) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    Commit commit = commit_of(hello);
    commit.stream_bytes = std::uint64_t{1} << 40;
    peer.say(MessageType::kOffer, Offer{commit, {}});
    EXPECT_EQ(peer.hear(), MessageType::kRefusal);
    EXPECT_TRUE(peer.is_dropped());
  });
  EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
  EXPECT_EQ(told.before, told.after);
}

TEST(HostilePublisher, BytesThatAreNoUpdateAreNotApplied) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    peer.say(MessageType::kOffer, Offer{commit_of(hello), {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    peer.link().queue_chunk({1, 0}, noise_of(1000));
    peer.say(MessageType::kCommit, CommitNote{{0, 1}});
    EXPECT_TRUE(peer.hear() == MessageType::kNack || peer.hear() == MessageType::kNack);
  });
  EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
  EXPECT_EQ(told.before, told.after);
}

// The leaves of the publisher itself are not checked by SHA-256: what an accident has changed is
// found before it is applied.
TEST(HostilePublisher, AChangedByteOfAnUpdateIsFound) {
  SmallModel source;
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  Recorded update = record_update(*publisher, {0, SmallModel(1).hash()}, source.view().schema_hash);
  update.offer.commit.epoch = 1;
  for (const std::size_t at : {update.bytes.size() / 3, update.bytes.size() - 5}) {
    const Recorded changed{update.offer, Buffer::allocate(update.bytes.size())};
    std::ranges::copy(update.bytes.bytes(), changed.bytes.data());
    changed.bytes.data()[at] ^= std::byte{1};
    const Told told = play_publisher(replica_options(),
                                     [&](RawPeer& peer, const Hello&) { replay(peer, changed); });
    EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
    EXPECT_EQ(told.before, told.after);
  }
}

TEST(HostilePublisher, AChunkOutOfPlaceEndsTheConnection) {
  for (const std::uint64_t first : {std::uint64_t{1}, std::uint64_t{1} << 50}) {
    const Told told = play_publisher(replica_options(), [&](RawPeer& peer, const Hello& hello) {
      peer.say(MessageType::kOffer, Offer{commit_of(hello), {}});
      ASSERT_EQ(peer.hear(), MessageType::kRequest);
      peer.link().queue_chunk({1, first}, Buffer::allocate(100));
      (void)peer.link().flush();
      EXPECT_TRUE(peer.is_dropped());
    });
    EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
    EXPECT_EQ(told.before, told.after);
  }
}

// The replica gives the update up while half of a chunk is there: the other half must not be
// written where nothing is any more.
TEST(HostilePublisher, AnUpdateIsGivenUpInTheMiddleOfAChunk) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    const Buffer bytes = noise_of(kLeafBytes + 1000);
    peer.say(MessageType::kOffer, Offer{sealed(commit_of(hello), bytes.bytes()), {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    peer.say(MessageType::kLeaves, Leaves{{0, 1}, 0, leaves_of(bytes.bytes())});
    peer.link().queue_chunk({1, 0}, bytes.slice(0, kLeafBytes));
    for (int i = 0; i < 2000 && peer.link().queued_bytes() > 0 && peer.link().flush(); ++i)
      usleep(1000);
    const Buffer noise = noise_of(500);
    const auto chunk_head = serialise(ChunkHead{1, kLeafBytes});
    const auto content_bytes = static_cast<std::uint32_t>(chunk_head.size() + noise.size());
    peer.send_bytes(serialise(MessageHead{MessageType::kChunk, content_bytes,
                                          crc32c(noise.bytes(), crc32c(chunk_head))}));
    peer.send_bytes(chunk_head);
    peer.send_bytes(noise.bytes().first(250));
    EXPECT_EQ(peer.hear(), MessageType::kNack);
    peer.send_bytes(noise.bytes().last(250));
    // The connection is as it was: the next offer is asked for.
    Commit next = commit_of(hello);
    next.version = 2;
    peer.say(MessageType::kOffer, Offer{next, {}});
    EXPECT_EQ(peer.hear(), MessageType::kRequest);
  });
  EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
  EXPECT_EQ(told.before, told.after);
}

TEST(HostilePublisher, AnEarlyCommitEndsTheConnection) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    peer.say(MessageType::kOffer, Offer{commit_of(hello), {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    peer.say(MessageType::kCommit, CommitNote{{0, 1}});
    EXPECT_TRUE(peer.is_dropped());
  });
  EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
}

TEST(HostilePublisher, ALabelForOtherBytesIsRefused) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    Commit commit = commit_of(hello);
    commit.stream_bytes = 0;  // and another target
    commit.is_anchor = false;
    commit.base_hash = hello.held.hash;
    vouch(peer, SmallModel(1).view(), 1);
    peer.say(MessageType::kOffer, Offer{commit, {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    peer.say(MessageType::kCommit, CommitNote{{0, 1}});
    EXPECT_TRUE(peer.hear() == MessageType::kNack || peer.hear() == MessageType::kNack);
  });
  EXPECT_EQ(told.status.code(), Code::kWrongBase) << told.status.message();
}

// More than a publisher sends before it hears that they are applied.
TEST(HostilePublisher, NoMoreVersionsWaitThanAreToBeSent) {
  SmallModel copy(1);
  RawPublisher publisher;
  const auto replica = open_replica(copy, publisher.address());
  Hello hello;
  {
    RawPeer peer = publisher.accept(&hello);
    peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", {}});
    vouch(peer, copy.view(), 1);
    for (std::uint64_t version = 1; version <= 4; ++version) {
      Commit label = commit_of(hello);
      label.is_anchor = false;
      label.base_hash = hello.held.hash;
      label.version = version;
      label.base_version = version - 1;
      label.target_hash = label.base_hash;
      label.stream_bytes = 0;
      peer.say(MessageType::kOffer, Offer{label, {}});
      if (version == 4) break;
      ASSERT_EQ(peer.hear(), MessageType::kRequest);
      peer.say(MessageType::kCommit, CommitNote{{version - 1, version}});
      ASSERT_EQ(peer.hear(), MessageType::kAck);
    }
    EXPECT_TRUE(peer.is_dropped());
  }
  RawPeer again = publisher.accept(&hello);
  EXPECT_EQ(hello.tip.version, 3U);
  EXPECT_EQ(hello.ahead, 3);
}

class SignedReplication : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / fmt::format("sparcl_signed_{}", getpid());
    std::filesystem::create_directories(folder_);
    for (const char* name : {"own", "other"}) {
      const Result<trust::SigningKey> key = trust::SigningKey::generate();
      ASSERT_TRUE(key.ok());
      ASSERT_TRUE(key->save(path(name)).ok());
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  PublisherOptions signing(const std::string& key) const {
    PublisherOptions options = local_options();
    if (!key.empty()) options.key_path = path(key);
    return options;
  }
  SubscriberOptions trusting() const {
    SubscriberOptions options = replica_options();
    options.trust_path = path("own.pub");
    return options;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(SignedReplication, TheTrustedKeysVersionsAreApplied) {
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source, signing("own"));
  ASSERT_TRUE(publisher->publish(1).ok());
  const auto replica = open_replica(copy, publisher->address(), trusting());
  for (std::uint64_t version = 1; version <= 3; ++version) {
    while (replica->versions().held < version) {
      const Result<Subscriber::Swap> swap = replica->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
    }
    EXPECT_EQ(copy.hash(), source.hash());
    source.step(version);
    ASSERT_TRUE(publisher->publish(version + 1).ok());
  }
}

TEST_F(SignedReplication, OtherKeysAndNoneAreRefused) {
  for (const char* key : {"other", ""}) {
    SmallModel source, copy(1);
    const auto publisher = open_publisher(source, signing(key));
    ASSERT_TRUE(publisher->publish(1).ok());
    const Hash128 before = copy.hash();
    const auto replica = open_replica(copy, publisher->address(), trusting());
    const Result<Subscriber::Swap> swap = replica->next(1);
    ASSERT_FALSE(swap.ok());
    EXPECT_EQ(swap.status().code(), Code::kUnauthorized) << swap.status().message();
    EXPECT_EQ(copy.hash(), before);
    EXPECT_EQ(replica->versions().held, 0U);
  }
}

TEST_F(SignedReplication, ChangedBytesAndChangedCommitsAreRefused) {
  SmallModel source;
  const auto publisher = open_publisher(source, signing("own"));
  ASSERT_TRUE(publisher->publish(1).ok());
  const Recorded update =
      record_update(*publisher, {0, SmallModel(1).hash()}, source.view().schema_hash);
  for (const bool in_commit : {false, true}) {
    Recorded changed{update.offer, Buffer::allocate(update.bytes.size())};
    std::ranges::copy(update.bytes.bytes(), changed.bytes.data());
    if (in_commit) changed.offer.commit.version = 2;
    if (!in_commit) changed.bytes.data()[changed.bytes.size() / 2] ^= std::byte{1};
    const Told told = play_publisher(trusting(), [&](RawPeer& peer, const Hello&) {
      replay(peer, changed);
      EXPECT_TRUE(peer.is_dropped() || !in_commit);
    });
    EXPECT_TRUE(told.status.code() == Code::kUnauthorized ||
                (!in_commit && told.status.code() == Code::kCorrupt))
        << told.status.message();
    EXPECT_EQ(told.before, told.after);
  }
}

TEST_F(SignedReplication, AnOldCommitIsRefusedThoughItIsSigned) {
  SmallModel source, copy(1);
  Recorded old;
  const HeldVersion nothing{0, copy.hash()};
  {
    const auto publisher = open_publisher(source, signing("own"));
    ASSERT_TRUE(publisher->publish(1).ok());
    old = record_update(*publisher, nothing, source.view().schema_hash);
  }
  RawPublisher rogue;
  const std::string address = rogue.address();
  const auto replica = open_replica(copy, address, trusting());
  {
    // The true publisher's later life, by way of the same address: what it says is passed on.
    const auto publisher = open_publisher(source, signing("own"));
    source.step(1);
    ASSERT_TRUE(publisher->publish(2).ok());
    const Recorded fresh = record_update(*publisher, nothing, source.view().schema_hash);
    RawPeer peer = rogue.accept();
    const Welcome welcome{kProtocolVersion, "m", fresh.offer.commit.epoch, 2, 5000, "relay", {}};
    peer.say(MessageType::kWelcome, welcome);
    replay(peer, fresh);
    const Result<Subscriber::Swap> swap = replica->next(20);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_EQ(copy.hash(), source.hash());
    const Hash128 held = copy.hash();
    replay(peer, old);  // of the epoch before
    EXPECT_TRUE(peer.is_dropped());
    RawPeer again = rogue.accept();
    again.say(MessageType::kWelcome, welcome);
    replay(again, fresh);  // what it holds already
    EXPECT_TRUE(again.is_dropped());
    RawPeer earlier = rogue.accept();
    earlier.say(MessageType::kWelcome,
                Welcome{kProtocolVersion, "m", old.offer.commit.epoch, 2, 5000, "relay", {}});
    replay(earlier, old);  // by the publisher of then
    EXPECT_TRUE(earlier.is_dropped());
    EXPECT_EQ(replica->next(0.2).status().code(), Code::kUnauthorized);
    EXPECT_EQ(copy.hash(), held);
    EXPECT_EQ(replica->versions().held, 2U);
  }
}

TEST(BrokenConnection, TheRestOfAnUpdateIsAskedFor) {
  SmallModel source(0, 3'000'000), copy(1, 3'000'000);
  const auto publisher = open_publisher(source);
  source.step(1, 3'000'000);  // so that an anchor takes many chunks
  ASSERT_TRUE(publisher->publish(1).ok());
  const Recorded update = record_update(*publisher, {0, copy.hash()}, source.view().schema_hash);
  ASSERT_GT(update.bytes.size(), 2 * kMaxChunkBytes);
  RawPublisher relay;
  const auto replica = open_replica(copy, relay.address());
  std::uint64_t there = 0;
  for (int connection = 0; connection < 3; ++connection) {
    RawPeer peer = relay.accept();
    peer.say(MessageType::kWelcome,
             Welcome{kProtocolVersion, "m", update.offer.commit.epoch, 1, 5000, "relay", {}});
    peer.say(MessageType::kOffer, update.offer);
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    const Result<Request> request = parse_request(peer.link().content());
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->first_byte, there);
    const std::size_t piece = connection < 2 ? kMaxChunkBytes : update.bytes.size() - there;
    EXPECT_EQ(request->has_leaves, connection > 0);
    if (connection == 0)
      peer.say(MessageType::kLeaves, Leaves{{0, 1}, 0, leaves_of(update.bytes.bytes())});
    for (std::size_t sent = 0; sent < piece; sent += kMaxChunkBytes) {
      const std::size_t count = std::min(kMaxChunkBytes, update.bytes.size() - there);
      peer.link().queue_chunk({1, there}, update.bytes.slice(there, count));
      there += count;
    }
    if (connection == 2) peer.link().queue(MessageType::kCommit, CommitNote{{0, 1}});
    for (int i = 0; i < 2000 && peer.link().queued_bytes() > 0; ++i) {
      ASSERT_TRUE(peer.link().flush());
      if (peer.link().queued_bytes() > 0) usleep(1000);
    }
    ::shutdown(peer.link().fd(), SHUT_WR);  // an end that lets go through what was sent
    if (connection < 2) {
      EXPECT_TRUE(peer.is_dropped());
    }
    if (connection == 2) {
      ASSERT_TRUE(replica->next(20).ok());
      EXPECT_EQ(copy.hash(), source.hash());
    }
  }
}

}  // namespace
}  // namespace sparcl::replication
