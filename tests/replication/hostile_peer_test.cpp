// What rogues, strangers and broken peers say to a publisher, and to a replica: nothing is applied, nobody else notices, nothing is
// held.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/codec/wire.hpp"
#include "src/replication/query.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

const std::string kModelId = "m";  // no literals below: g++ 12 warns of their assignment
const std::string kAnyPort = "127.0.0.1:0";

PublisherOptions local_options() {
  PublisherOptions options;
  options.listen = kAnyPort;
  options.model_id = kModelId;
  return options;
}

SubscriberOptions replica_options() {
  SubscriberOptions options;
  options.model_id = kModelId;
  return options;
}

std::unique_ptr<Publisher> open_publisher(const SmallModel& model, const PublisherOptions& options = local_options()) {
  Result<std::unique_ptr<Publisher>> made = Publisher::create(model.view(), options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

std::unique_ptr<Subscriber> open_replica(const SmallModel& model, const std::string& address,
                                         const SubscriberOptions& options = replica_options()) {
  Result<std::unique_ptr<Subscriber>> made = Subscriber::create(model.view(), address, options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

int open_descriptors() {
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) count += each.path().empty() ? 0 : 1;
  return count;
}

Hello hello_of(const SmallModel& model) {
  const HeldVersion held{0, model.hash()};
  return {kProtocolVersion, "m", model.view().schema_hash, codec::kWireVersion, held, held, 0, 5000, 0, false, "a test"};
}

// --- to a publisher ---

TEST(HostilePeer, GarbageIsDroppedAndReplicasDoNotNotice) {
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  const auto replica = open_replica(copy, publisher->address());
  ASSERT_TRUE(replica->next(20).ok());
  std::mt19937_64 random(5);
  for (int i = 0; i < 50; ++i) {
    RawPeer peer = RawPeer::connect(publisher->address());
    std::vector<std::byte> noise(20 + random() % 5000);
    for (std::byte& each : noise) each = std::byte(static_cast<std::uint8_t>(random()));
    peer.send_bytes(noise);
    EXPECT_TRUE(peer.is_dropped());
  }
  source.step(1);
  ASSERT_TRUE(publisher->publish(2).ok());
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST(HostilePeer, SlowStrangersAreDroppedAndHoldNoDescriptors) {
  SmallModel source;
  PublisherOptions options = local_options();
  options.silence_s = 0.5;
  const auto publisher = open_publisher(source, options);
  const int before = open_descriptors();
  {
    std::vector<RawPeer> strangers;
    const auto head = serialise(MessageHead{MessageType::kHello, 1000, 0});
    for (int i = 0; i < 100; ++i) {
      strangers.push_back(RawPeer::connect(publisher->address()));
      if (i % 2 == 0) strangers.back().send_bytes(head);  // and no more
    }
    for (RawPeer& each : strangers) EXPECT_TRUE(each.is_dropped());
  }
  for (int i = 0; i < 100 && open_descriptors() > before; ++i) usleep(50'000);
  EXPECT_LE(open_descriptors(), before);
}

TEST(HostilePeer, MessagesOutOfPlaceEndTheConnection) {
  SmallModel source;
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer early = RawPeer::connect(publisher->address());
  early.say(MessageType::kAck, Ack{AckStage::kHeld, {1, source.hash()}});
  EXPECT_TRUE(early.is_dropped());
  EXPECT_EQ(publisher->count(1).holding, 0);

  RawPeer twice = RawPeer::connect(publisher->address());
  twice.say(MessageType::kHello, hello_of(source));
  EXPECT_EQ(twice.hear(), MessageType::kWelcome);
  twice.say(MessageType::kHello, hello_of(source));
  EXPECT_TRUE(twice.is_dropped());

  RawPeer greedy = RawPeer::connect(publisher->address());
  SmallModel other(3);
  greedy.say(MessageType::kHello, hello_of(other));
  EXPECT_EQ(greedy.hear(), MessageType::kWelcome);
  ASSERT_EQ(greedy.hear(), MessageType::kOffer);
  const Result<Offer> offer = parse_offer(greedy.link().content());
  ASSERT_TRUE(offer.ok());
  EXPECT_TRUE(offer->commit.is_anchor);
  greedy.say(MessageType::kRequest, Request{{0, 1}, offer->commit.stream_bytes + 1});
  EXPECT_TRUE(greedy.is_dropped());
}

TEST(HostilePeer, OneThatReadsNothingCostsNoMemoryAndHoldsNobodyUp) {
  SmallModel source, copy(1);
  PublisherOptions options = local_options();
  options.silence_s = 1;
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer deaf = RawPeer::connect(publisher->address());
  deaf.say(MessageType::kHello, hello_of(copy));
  const auto replica = open_replica(copy, publisher->address());
  for (std::uint64_t version = 2; version <= 20; ++version) {
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
    ASSERT_TRUE(replica->next(20).ok());
  }
  while (replica->versions().held < 20) ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(copy.hash(), source.hash());
  for (int i = 0; i < 200 && publisher->count(0).connected > 1; ++i) usleep(50'000);
  EXPECT_EQ(publisher->count(0).connected, 1);
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(HostilePeer, DamageIsNoLargerThanTheTensors) {
  SmallModel source;
  PublisherOptions options = local_options();
  options.silence_s = 100;  // it is not dropped for that
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  Hello hello = hello_of(source);
  hello.damaged = true;
  RawPeer peer = RawPeer::connect(publisher->address());
  peer.say(MessageType::kHello, hello);
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  peer.send_bytes(serialise(MessageHead{MessageType::kDamage, 1 << 20, 0}));
  EXPECT_TRUE(peer.is_dropped());
}

// By what its head claims a message costs nothing.
TEST(MessageLink, MemoryComesWithTheBytes) {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  for (const bool is_skipped : {false, true}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    MessageLink from(Socket{ends[0]}), to(Socket{ends[1]});
    std::vector<std::byte> content(kBytes);
    std::mt19937_64 random(7);
    for (std::size_t i = 0; i < kBytes; i += 1000) content[i] = std::byte(static_cast<std::uint8_t>(random()));
    from.queue(MessageType::kDamage, std::span<const std::byte>(content));
    to.allow(MessageType::kDamage, kBytes);
    if (is_skipped) to.skip(MessageType::kDamage);
    const auto nowhere = [](const ChunkHead&, std::size_t) { return Buffer(); };
    ASSERT_TRUE(from.flush());  // what the socket takes
    const std::size_t before = resident_bytes();
    MessageLink::Progress progress = to.receive(nowhere);
    ASSERT_EQ(progress, MessageLink::Progress::kMore);
    EXPECT_LT(resident_bytes(), before + kBytes / 2);
    while (progress == MessageLink::Progress::kMore) {
      ASSERT_TRUE(from.flush());
      progress = to.receive(nowhere);
    }
    ASSERT_EQ(progress, MessageLink::Progress::kMessage) << to.why().message();
    if (is_skipped) {
      EXPECT_LT(to.content().size(), kBytes / 2);
    } else {
      EXPECT_TRUE(std::ranges::equal(to.content(), content));
    }
  }
}

TEST(HostilePeer, AsManyReplicasAsDescriptorsAllowAreServedAndOthersAreToldWhy) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{140, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  SmallModel source;
  const auto publisher = open_publisher(source);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<RawPeer> replicas;  // 140 less 64 for the process, and 64 strangers
  for (int i = 0; i < 12; ++i) {
    replicas.push_back(RawPeer::connect(publisher->address()));
    replicas.back().say(MessageType::kHello, hello_of(source));
    ASSERT_EQ(replicas.back().hear(), MessageType::kWelcome);
  }
  RawPeer late = RawPeer::connect(publisher->address());
  late.say(MessageType::kHello, hello_of(source));
  ASSERT_EQ(late.hear(), MessageType::kRefusal);
  const Result<Refusal> refusal = parse_refusal(late.link().content());
  ASSERT_TRUE(refusal.ok());
  EXPECT_EQ(refusal->text, "it serves 12 replicas already, as many as its descriptors allow: ulimit -n");
  replicas.pop_back();
  for (int i = 0; i < 200 && publisher->count(0).connected > 11; ++i) usleep(20'000);
  RawPeer next = RawPeer::connect(publisher->address());
  next.say(MessageType::kHello, hello_of(source));
  EXPECT_EQ(next.hear(), MessageType::kWelcome);
}

// Says that it is alive, and asks for nothing, or takes nothing of what it has asked for.
TEST(HostilePeer, OneThatTakesNothingIsDroppedThoughItIsAlive) {
  SmallModel source(0, 8'000'000), copy(1, 8'000'000);
  source.step(1, 8'000'000);
  PublisherOptions options = local_options();
  options.silence_s = 4;
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer mute = RawPeer::connect(publisher->address()), deaf = RawPeer::connect(publisher->address());
  for (RawPeer* peer : {&mute, &deaf}) {
    peer->say(MessageType::kHello, hello_of(copy));
    ASSERT_EQ(peer->hear(), MessageType::kWelcome);
    ASSERT_EQ(peer->hear(), MessageType::kOffer);
  }
  deaf.say(MessageType::kRequest, Request{{0, 1}, 0});
  RawPeer held = RawPeer::connect(publisher->address());  // as one whose user does not call next()
  Hello hello = hello_of(copy);
  hello.ahead = 2;
  held.say(MessageType::kHello, hello);
  ASSERT_EQ(held.hear(), MessageType::kWelcome);
  ASSERT_EQ(publisher->count(0).connected, 3);
  for (int i = 0; i < 60 && publisher->count(0).connected > 1; ++i) {
    for (RawPeer* peer : {&mute, &deaf, &held}) peer->say(MessageType::kAlive, Alive{0});
    usleep(250'000);
  }
  EXPECT_EQ(publisher->count(0).connected, 1);
  EXPECT_FALSE(held.is_dropped(0.1));
}

// They ask for a large answer, and do not read it.
TEST(HostilePeer, AnswersThatNobodyReadsAreFew) {
  SmallModel source;
  PublisherOptions options = local_options();
  options.description.resize(std::size_t{16} << 20);
  const auto publisher = open_publisher(source, options);
  const std::size_t before = resident_bytes();
  const int descriptors = open_descriptors();
  std::vector<RawPeer> askers;
  for (int i = 0; i < 100; ++i) {
    askers.push_back(RawPeer::connect(publisher->address()));
    askers.back().link().queue(MessageType::kModelQuery, std::span<const std::byte>());
    (void)askers.back().link().flush();
  }
  usleep(500'000);
  EXPECT_LE(open_descriptors() - descriptors, 100 + 64);
  EXPECT_LT(resident_bytes() - before, std::size_t{256} << 20);
}

TEST(Query, TellsWhatIsPublishedAndWhoHoldsIt) {
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(5).ok());
  const auto replica = open_replica(copy, publisher->address());
  ASSERT_TRUE(replica->next(20).ok());
  ASSERT_TRUE(publisher->wait(5, 1, 20).ok());
  const Result<std::string> status = query_status(publisher->address(), 20);
  ASSERT_TRUE(status.ok()) << status.status().message();
  const nlohmann::json report = nlohmann::json::parse(*status);
  EXPECT_EQ(report["version"], 5);
  EXPECT_EQ(report["hash"], to_hex(source.hash()));
  ASSERT_EQ(report["replicas"].size(), 1U);
  EXPECT_EQ(report["replicas"][0]["version"], 5);
  EXPECT_EQ(report["replicas"][0]["state"], "current");
  const Result<ModelReply> model = query_model(publisher->address(), 20);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->model_id, "m");
  EXPECT_EQ(query_status("127.0.0.1:1", 5).status().code(), Code::kRemoteError);
}

TEST(HostilePeer, NamesOfAnyLengthLeaveTheReportWhole) {
  constexpr std::size_t kPeers = 150;
  SmallModel source, copy(1);
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  Hello hello = hello_of(copy);
  hello.name.assign(4096, '"');
  std::vector<RawPeer> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    peers.push_back(RawPeer::connect(publisher->address()));
    peers.back().say(MessageType::kHello, hello);
    ASSERT_EQ(peers.back().hear(), MessageType::kWelcome);
  }
  const Result<std::string> status = query_status(publisher->address(), 20);
  ASSERT_TRUE(status.ok()) << status.status().message();
  const nlohmann::json report = nlohmann::json::parse(*status, nullptr, false);
  ASSERT_TRUE(report.is_object()) << status->size() << " bytes";
  EXPECT_EQ(report["replicas_connected"], kPeers);
  EXPECT_EQ(report["replicas"].size(), kPeers);
}

// --- to a replica ---

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
  commit.schema_hash = hello.schema_hash;
  commit.base_hash = hello.held.hash;
  commit.target_hash = {1, 1};
  commit.stream_bytes = 1000;
  return commit;
}

TEST(HostilePeer, AnOfferOfATerabyteIsRefusedBeforeAnyByte) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    Commit commit = commit_of(hello);
    commit.is_anchor = true;
    commit.stream_bytes = std::uint64_t{1} << 40;
    peer.say(MessageType::kOffer, Offer{commit, {}});
    EXPECT_EQ(peer.hear(), MessageType::kRefusal);
    EXPECT_TRUE(peer.is_dropped());
  });
  EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
  EXPECT_EQ(told.before, told.after);
}

TEST(HostilePeer, BytesThatAreNoUpdateAreNotApplied) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    peer.say(MessageType::kOffer, Offer{commit_of(hello), {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    Buffer noise = Buffer::allocate(1000);
    std::fill(noise.bytes().begin(), noise.bytes().end(), std::byte{0x5a});
    peer.link().queue_chunk({1, 0}, noise);
    peer.say(MessageType::kCommit, CommitNote{{0, 1}});
    EXPECT_TRUE(peer.hear() == MessageType::kNack || peer.hear() == MessageType::kNack);
  });
  EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
  EXPECT_EQ(told.before, told.after);
}

TEST(HostilePeer, AChunkOutOfPlaceEndsTheConnection) {
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

// The replica gives the update up while half of a chunk is there: the other half must not be written where nothing is any more.
TEST(HostilePeer, AnUpdateIsGivenUpInTheMiddleOfAChunk) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    peer.say(MessageType::kOffer, Offer{commit_of(hello), {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    Buffer noise = Buffer::allocate(500);
    std::fill(noise.bytes().begin(), noise.bytes().end(), std::byte{0x5a});
    peer.link().queue_chunk({1, 0}, noise);
    ASSERT_TRUE(peer.link().flush());
    const auto chunk_head = serialise(ChunkHead{1, 500});
    const auto content_bytes = static_cast<std::uint32_t>(chunk_head.size() + noise.size());
    peer.send_bytes(serialise(MessageHead{MessageType::kChunk, content_bytes, crc32c(noise.bytes(), crc32c(chunk_head))}));
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

TEST(HostilePeer, AnEarlyCommitEndsTheConnection) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    peer.say(MessageType::kOffer, Offer{commit_of(hello), {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    peer.say(MessageType::kCommit, CommitNote{{0, 1}});
    EXPECT_TRUE(peer.is_dropped());
  });
  EXPECT_EQ(told.status.code(), Code::kCorrupt) << told.status.message();
}

TEST(HostilePeer, ALabelForOtherBytesIsRefused) {
  const Told told = play_publisher(replica_options(), [](RawPeer& peer, const Hello& hello) {
    Commit commit = commit_of(hello);
    commit.stream_bytes = 0;  // and another target
    peer.say(MessageType::kOffer, Offer{commit, {}});
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    peer.say(MessageType::kCommit, CommitNote{{0, 1}});
    EXPECT_TRUE(peer.hear() == MessageType::kNack || peer.hear() == MessageType::kNack);
  });
  EXPECT_EQ(told.status.code(), Code::kWrongBase) << told.status.message();
}

// More than a publisher sends before it hears that they are applied.
TEST(HostilePeer, NoMoreVersionsWaitThanAreToBeSent) {
  SmallModel copy(1);
  RawPublisher publisher;
  const auto replica = open_replica(copy, publisher.address());
  Hello hello;
  {
    RawPeer peer = publisher.accept(&hello);
    peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", {}});
    for (std::uint64_t version = 1; version <= 4; ++version) {
      Commit label = commit_of(hello);
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

// The bytes of a publisher's update, as a replica gets them.
struct Recorded {
  Offer offer;
  Buffer bytes;
};
Recorded record_update(Publisher& publisher, const HeldVersion& held, const Hash128& schema_hash) {
  RawPeer peer = RawPeer::connect(publisher.address());
  peer.say(MessageType::kHello,
           Hello{kProtocolVersion, "m", schema_hash, codec::kWireVersion, held, held, 0, 5000, 0, false, "a thief"});
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  EXPECT_EQ(peer.hear(), MessageType::kOffer);
  Recorded got{*parse_offer(peer.link().content()), {}};
  got.bytes = Buffer::allocate(got.offer.commit.stream_bytes);
  peer.say(MessageType::kRequest, Request{{got.offer.commit.base_version, got.offer.commit.version}, 0});
  const auto place = [&](const ChunkHead& chunk, std::size_t count) { return got.bytes.slice(chunk.first_byte, count); };
  while (peer.hear(RawPeer::kPatience, place) == MessageType::kChunk) {
  }
  EXPECT_EQ(peer.link().type(), MessageType::kCommit);
  return got;
}

void replay(RawPeer& peer, const Recorded& update) {
  peer.say(MessageType::kOffer, update.offer);
  const std::optional<MessageType> answer = peer.hear();
  if (answer != MessageType::kRequest) return;
  for (std::size_t at = 0; at < update.bytes.size(); at += kMaxChunkBytes) {
    peer.link().queue_chunk({update.offer.commit.version, at},
                            update.bytes.slice(at, std::min(kMaxChunkBytes, update.bytes.size() - at)));
  }
  peer.say(MessageType::kCommit, CommitNote{{update.offer.commit.base_version, update.offer.commit.version}});
}

class SignedReplication : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("sparcl_signed_{}", getpid());
    std::filesystem::create_directories(folder_);
    for (const char* name : {"own", "other"}) {
      const Result<SigningKey> key = SigningKey::generate();
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
  const Recorded update = record_update(*publisher, {0, SmallModel(1).hash()}, source.view().schema_hash);
  for (const bool in_commit : {false, true}) {
    Recorded changed{update.offer, Buffer::allocate(update.bytes.size())};
    std::ranges::copy(update.bytes.bytes(), changed.bytes.data());
    if (in_commit) changed.offer.commit.version = 2;
    if (!in_commit) changed.bytes.data()[changed.bytes.size() / 2] ^= std::byte{1};
    const Told told = play_publisher(trusting(), [&](RawPeer& peer, const Hello&) {
      replay(peer, changed);
      EXPECT_TRUE(peer.is_dropped() || !in_commit);
    });
    EXPECT_TRUE(told.status.code() == Code::kUnauthorized || (!in_commit && told.status.code() == Code::kCorrupt))
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
    earlier.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", old.offer.commit.epoch, 2, 5000, "relay", {}});
    replay(earlier, old);  // by the publisher of then
    EXPECT_TRUE(earlier.is_dropped());
    EXPECT_EQ(replica->next(0.2).status().code(), Code::kUnauthorized);
    EXPECT_EQ(copy.hash(), held);
    EXPECT_EQ(replica->versions().held, 2U);
  }
}

// --- connections that break ---

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
    peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", update.offer.commit.epoch, 1, 5000, "relay", {}});
    peer.say(MessageType::kOffer, update.offer);
    ASSERT_EQ(peer.hear(), MessageType::kRequest);
    const Result<Request> request = parse_request(peer.link().content());
    ASSERT_TRUE(request.ok());
    EXPECT_EQ(request->first_byte, there);
    const std::size_t piece = connection < 2 ? kMaxChunkBytes : update.bytes.size() - there;
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
