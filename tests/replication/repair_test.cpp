// A replica whose memory was damaged is sent the blocks that differ, and holds exactly a version
// again.

#include "src/replication/repair.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/base/log.hpp"
#include "src/codec/state_hash.hpp"
#include "src/codec/wire.hpp"
#include "tests/replication/replica_pair.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::TempFolder;

constexpr std::uint64_t kElements = 3'000'000;  // 46 blocks, and one of the bias
constexpr int kRepairChanges = 20'000;

std::vector<Hash128> block_hashes(const ReplicatedState& state) {
  std::vector<Hash128> hashes;
  codec::add_block_hashes(*state.map, {state.readable()}, 0, state.map->block_count(),
                          *state.kernels, hashes);
  return hashes;
}

PublisherOptions publishing(const std::string& key = "", std::size_t queue = 64) {
  PublisherOptions options = local_options();
  options.key_path = key;
  options.queue = queue;
  return options;
}

SubscriberOptions repaired(const std::string& trust = "", bool shares_memory = true) {
  SubscriberOptions options = replica_options();
  options.trust_path = trust;
  options.shares_memory = shares_memory;
  options.sweep_s = 0.02;
  return options;
}

// While the replica's thread may be looking: damage waits for no lock.
__attribute__((no_sanitize("thread"), noinline)) void damage_byte(std::byte* at) {
  *reinterpret_cast<unsigned char*>(at) ^= 1U;
}

// What brought it there.
struct Way {
  std::uint64_t version = 0;
  std::uint64_t stream_bytes = 0;
  std::uint64_t changed = 0;
  int anchors = 0;
  int repairs = 0;
};

Way follow(Subscriber& replica, std::uint64_t version) {
  Way way;
  while (replica.versions().held < version) {
    const auto swap = replica.next(20);
    EXPECT_TRUE(swap.ok()) << swap.status().message();
    if (!swap.ok()) break;
    way.version = swap->version;
    way.stream_bytes += swap->stream_bytes;
    way.changed += swap->changed;
    way.anchors += swap->by_anchor ? 1 : 0;
    way.repairs += swap->by_repair ? 1 : 0;
  }
  return way;
}

// Once it has said so.
Way heal(Subscriber& replica, std::uint64_t version) {
  EXPECT_EQ(replica.next(20).status().code(), Code::kCorrupt);
  EXPECT_EQ(replica.versions().held, 0U);
  return follow(replica, version);
}

struct Repairs : ::testing::Test {
  SmallModel source{0, kElements}, copy{7, kElements};
  std::unique_ptr<Publisher> publisher;
  std::unique_ptr<Subscriber> replica;
  std::uint64_t version = 0;
  std::uint64_t anchor_bytes = 0;

  void open(const std::string& key = "", const std::string& trust = "", bool shares_memory = true) {
    replica = nullptr;
    publisher = open_publisher(source.view(), publishing(key));
    source.step(1000, static_cast<int>(kElements));  // or all bytes are few
    publish();
    replica = open_replica(copy.view(), publisher->address(), repaired(trust, shares_memory));
    anchor_bytes = follow(*replica, version).stream_bytes;
    EXPECT_EQ(copy.hash(), source.hash());
  }
  void publish() {
    source.step(++version, kRepairChanges);
    const auto report = publisher->publish(version);
    ASSERT_TRUE(report.ok()) << report.status().message();
  }
};

TEST_F(Repairs, FewBlocksOfManyAreSent) {
  for (const bool shares_memory : {true, false}) {
    version = 0;
    open("", "", shares_memory);
    publish();
    EXPECT_EQ(follow(*replica, version).anchors, 0);
    copy.poke(5, 0x7001);
    copy.poke(1'700'000, 0x7002);
    const Way way = heal(*replica, version);
    EXPECT_EQ(way.version, version);
    EXPECT_EQ(way.repairs, 1);
    EXPECT_EQ(way.anchors, 0);
    EXPECT_EQ(way.changed, 2U * codec::kBlockElements);
    EXPECT_LT(way.stream_bytes, anchor_bytes / 20);
    EXPECT_EQ(copy.hash(), source.hash());
    EXPECT_EQ(replica->pin(version - 1).code(), Code::kInvalidUsage);  // the rollback is lost
    publish();
    const Way next = follow(*replica, version);
    EXPECT_EQ(next.anchors + next.repairs, 0);
    EXPECT_EQ(copy.hash(), source.hash());
    EXPECT_TRUE(publisher->wait(version, 1, 20).ok());
  }
}

TEST_F(Repairs, OneReplicaMoreThanOnce) {
  open();
  for (std::size_t i = 0; i < 4; ++i) {
    copy.poke(i * 700'000, static_cast<std::uint16_t>(0x7003 + i));
    const Way way = heal(*replica, version);
    EXPECT_EQ(way.repairs, 1);
    EXPECT_EQ(copy.hash(), source.hash());
  }
}

TEST_F(Repairs, TheVersionThatItHeldThoughThereAreLaterOnes) {
  open();
  const Hash128 held = source.hash();
  ASSERT_TRUE(replica->pin(version).ok());
  for (int i = 0; i < 3; ++i) publish();
  copy.poke(1'000'000, 0x7001);
  const Way way = heal(*replica, 1);
  EXPECT_EQ(way.version, 1U);
  EXPECT_EQ(way.repairs, 1);
  EXPECT_EQ(copy.hash(), held);
  ASSERT_TRUE(replica->pin(0).ok());
  EXPECT_EQ(follow(*replica, version).anchors, 0);
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST_F(Repairs, WhereItsVersionIsForgottenAllBytesAreSent) {
  publisher = open_publisher(source.view(), publishing("", 1));
  source.step(1000, static_cast<int>(kElements));
  publish();
  replica = open_replica(copy.view(), publisher->address(), repaired());
  (void)follow(*replica, version);
  ASSERT_TRUE(replica->pin(version).ok());
  for (int i = 0; i < 4; ++i) publish();
  copy.poke(1'000'000, 0x7001);
  EXPECT_EQ(replica->next(20).status().code(), Code::kCorrupt);
  ASSERT_TRUE(replica->pin(0).ok());
  const Way way = follow(*replica, version);
  EXPECT_EQ(way.anchors, 1);
  EXPECT_EQ(way.repairs, 0);
  EXPECT_EQ(copy.hash(), source.hash());
}

// The version that it is pinned to cannot be had: it is told so as long as that is so.
TEST_F(Repairs, APinThatKeepsARepairAwayIsNamed) {
  publisher = open_publisher(source.view(), publishing("", 1));
  source.step(1000, static_cast<int>(kElements));
  publish();
  replica = open_replica(copy.view(), publisher->address(), repaired());
  (void)follow(*replica, version);
  ASSERT_TRUE(replica->pin(version).ok());
  for (int i = 0; i < 4; ++i) publish();
  copy.poke(1'000'000, 0x7001);
  EXPECT_EQ(replica->next(20).status().code(), Code::kCorrupt);
  // Until what repairs it is there. That it has been staged says nothing: it may have been before.
  Status status;
  const double deadline = net::monotonic_seconds() + 20;
  do {
    status = replica->next(0.1).status();
  } while (status.code() == Code::kTimeout && net::monotonic_seconds() < deadline);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("pinned to version 1"), std::string::npos) << status.message();
  ASSERT_TRUE(replica->pin(0).ok());
  (void)follow(*replica, version);
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST_F(Repairs, WhileVersionsArePublished) {
  open();
  std::atomic<bool> ends = false;
  std::atomic<std::uint64_t> last = version;
  std::thread trainer([&] {
    for (std::uint64_t next = version + 1; !ends; ++next) {
      source.step(next, kRepairChanges);
      ASSERT_TRUE(publisher->publish(next).ok());
      last = next;
    }
  });
  for (std::size_t round = 0; round < 6; ++round) {
    copy.poke(round * 400'000, static_cast<std::uint16_t>(0x7100 + round));
    const std::uint64_t until = last + 5;
    while (replica->versions().held < until) {
      const auto swap = replica->next(20);
      if (swap.status().code() == Code::kTimeout) break;
    }
    EXPECT_GE(replica->versions().held, until);
  }
  ends = true;
  trainer.join();
  while (replica->versions().held < last ||
         copy.hash() != source.hash()) {  // what no update has met is found by the sweep
    const auto swap = replica->next(20);
    ASSERT_NE(swap.status().code(), Code::kTimeout) << swap.status().message();
  }
}

TEST_F(Repairs, DamageThatComesBeforeTheRepairIsFoundToo) {
  open();
  copy.poke(5, 0x7001);
  EXPECT_EQ(replica->next(20).status().code(), Code::kCorrupt);
  copy.poke(2'000'000, 0x7002);
  while (replica->versions().held < version || copy.hash() != source.hash()) {
    const auto swap = replica->next(20);
    ASSERT_NE(swap.status().code(), Code::kTimeout) << swap.status().message();
  }
}

TEST_F(Repairs, DamagedEverywhereAllBytesAreSent) {
  open();
  for (std::size_t i = 0; i < kElements; i += 10'000) copy.poke(i, 0x7001);
  const Way way = heal(*replica, version);
  EXPECT_EQ(way.repairs, 0);
  EXPECT_EQ(way.anchors, 1);
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST_F(Repairs, BytesOfAnEarlierVersionAreMadeGoodToo) {
  open();
  const std::vector<std::byte> before(copy.view().arrays[0], copy.view().arrays[0] + 2 * kElements);
  const std::vector<std::byte> bias(copy.view().arrays[1], copy.view().arrays[1] + 400);
  publish();
  (void)follow(*replica, version);
  // The sweep may look while half of it is written.
  std::ranges::copy(before, copy.view().arrays[0]);
  std::ranges::copy(bias, copy.view().arrays[1]);
  while (replica->versions().held < version || copy.hash() != source.hash()) {
    const auto swap = replica->next(20);
    ASSERT_NE(swap.status().code(), Code::kTimeout) << swap.status().message();
  }
}

TEST_F(Repairs, ByAPublisherThatComesLater) {
  open();
  const std::string address = publisher->address();
  publisher = nullptr;
  copy.poke(77, 0x7001);
  EXPECT_EQ(replica->next(20).status().code(), Code::kCorrupt);
  PublisherOptions options;
  options.listen = address;
  options.model_id = kModelId;
  publisher = std::move(*Publisher::create(source.view(), options));
  ASSERT_TRUE(publisher->publish(version).ok());
  const Way way = follow(*replica, version);
  EXPECT_EQ(way.repairs, 1);
  EXPECT_EQ(way.anchors, 0);
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST_F(Repairs, SignedOnesAreTrusted) {
  const TempFolder folder;
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok() && key->save(folder / "key").ok());
  open(folder / "key", folder / "key.pub");
  publish();
  (void)follow(*replica, version);
  copy.poke(1'000'000, 0x7001);
  const Way way = heal(*replica, version);
  EXPECT_EQ(way.repairs, 1);
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST_F(Repairs, ManyReplicasAtOnce) {
  open();
  std::vector<std::unique_ptr<SmallModel>> copies;
  std::vector<std::unique_ptr<Subscriber>> replicas;
  for (int i = 0; i < 5; ++i) {
    copies.push_back(std::make_unique<SmallModel>(std::uint16_t{9}, kElements));
    replicas.push_back(open_replica(copies.back()->view(), publisher->address(), repaired()));
  }
  for (const auto& each : replicas) (void)follow(*each, version);
  for (std::size_t i = 0; i < copies.size(); ++i) copies[i]->poke(i * 500'000, 0x7001);
  for (const auto& each : replicas) EXPECT_EQ(heal(*each, version).repairs, 1);
  for (const auto& each : copies) EXPECT_EQ(each->hash(), source.hash());
}

// It takes updates from another replica, and another one takes them from it.
TEST_F(Repairs, InAChainOfReplicas) {
  open("", "", false);
  constexpr std::size_t kReplicas = 3;
  std::vector<std::unique_ptr<SmallModel>> copies;
  std::vector<std::unique_ptr<Subscriber>> replicas;
  const auto all_follow = [&] {
    (void)follow(*replica, version);
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      EXPECT_EQ(follow(*replicas[i], version).anchors, 0) << i;
      EXPECT_EQ(copies[i]->hash(), source.hash()) << i;
    }
  };
  const auto with_parent = [&] {
    std::size_t count = 0;
    const auto report = nlohmann::json::parse(publisher->status());
    for (const auto& each : report["replicas"]) count += each["from"] == "publisher" ? 0U : 1U;
    return count;
  };
  const auto settles = [&] {
    for (int i = 0; i < 4000 && with_parent() < kReplicas; ++i) usleep(5'000);
    return with_parent() == kReplicas;
  };
  for (std::size_t i = 0; i < kReplicas; ++i) {
    copies.push_back(std::make_unique<SmallModel>(std::uint16_t{9}, kElements));
    replicas.push_back(
        open_replica(copies.back()->view(), publisher->address(), repaired("", false)));
    (void)follow(*replicas.back(), version);
  }
  ASSERT_TRUE(settles()) << publisher->status();
  publish();
  all_follow();
  for (const std::size_t damaged : {std::size_t{2}, std::size_t{0}}) {
    ASSERT_TRUE(publisher->wait(version, kReplicas + 1, 20).ok());
    copies[damaged]->poke(1'234'567, static_cast<std::uint16_t>(0x7000 + damaged));
    const Way way = heal(*replicas[damaged], version);
    EXPECT_EQ(way.repairs, 1);
    EXPECT_EQ(way.anchors, 0);
    publish();
    all_follow();
    ASSERT_TRUE(settles()) << publisher->status();
  }
}

TEST(RepairsOfParts, SeveralTensorsAndSlices) {
  for (const bool is_whole : {true, false}) {
    HeldTensors source(whole_schema());
    source.change(1, 2);
    const auto publisher = open_publisher(source.view(), publishing());
    ASSERT_TRUE(publisher->publish(1).ok());
    // Six blocks of the whole model, or of half of it, whose slices follow each other in the same
    // blocks.
    HeldTensors copy(is_whole ? whole_schema() : shard_schema(1, 2));
    const auto replica = open_replica(copy.view(), publisher->address(), repaired());
    HeldTensors expected(copy.schema());
    const std::uint64_t all = follow(*replica, 1).stream_bytes;
    for (const bool is_pinned : {false, true}) {
      expected.copy_from(source);
      const std::uint64_t version = replica->versions().held;
      ASSERT_EQ(copy.hash(), expected.hash());
      if (is_pinned) {
        ASSERT_TRUE(replica->pin(version).ok());
        source.change(version + 1, 100);
        ASSERT_TRUE(publisher->publish(version + 1).ok());
      }
      damage_byte(copy.tensor(copy.schema().size() - 1).data());
      const Way way = heal(*replica, version);
      EXPECT_EQ(way.repairs, 1);
      EXPECT_EQ(way.anchors, 0);
      EXPECT_LT(way.stream_bytes, all / 2);
      EXPECT_EQ(copy.hash(), expected.hash());
      ASSERT_TRUE(replica->pin(0).ok());
    }
    EXPECT_EQ(follow(*replica, 2).anchors, 0);
    expected.copy_from(source);
    EXPECT_EQ(copy.hash(), expected.hash());
  }
}

// --- what others may say ---

class HostileDamage : public ::testing::Test {
 protected:
  void SetUp() override {
    source_.step(1000, static_cast<int>(kElements));
    PublisherOptions options = local_options();
    options.silence_s = 1;
    publisher_ = std::move(*Publisher::create(source_.view(), options));
    ASSERT_TRUE(publisher_->publish(1).ok());
    damaged_.step(1000, static_cast<int>(kElements));
    damaged_.poke(5, 0x7001);
  }
  Hello hello(bool is_damaged = true) const {
    const HeldVersion held{0, damaged_.hash()};
    return {kProtocolVersion,
            "m",
            source_.view().schema_hash,
            codec::kWireVersion,
            held,
            held,
            0,
            5000,
            0,
            false,
            "a test",
            0,
            is_damaged};
  }
  Damage damage() const { return {{1, source_.hash()}, block_hashes(damaged_.view())}; }
  RawPeer greet(const Hello& hello) const {
    RawPeer peer = RawPeer::connect(publisher_->address());
    peer.say(MessageType::kHello, hello);
    EXPECT_EQ(peer.hear(), MessageType::kWelcome);
    return peer;
  }
  static std::optional<Commit> offered(RawPeer& peer) {
    const auto type = peer.hear();
    EXPECT_EQ(type, MessageType::kOffer);
    if (type != MessageType::kOffer) return {};
    const Result<Offer> offer = parse_offer(peer.link().content());
    EXPECT_TRUE(offer.ok());
    return offer->commit;
  }

  SmallModel source_{0, kElements}, damaged_{0, kElements};
  std::unique_ptr<Publisher> publisher_;
};

TEST_F(HostileDamage, HashesOfWhatIsHeldBringTheRest) {
  RawPeer peer = greet(hello());
  peer.say(MessageType::kDamage, damage());
  const auto commit = offered(peer);
  ASSERT_TRUE(commit);
  EXPECT_TRUE(commit->is_repair());
  EXPECT_EQ(commit->version, 1U);
  EXPECT_EQ(commit->base_hash, damaged_.hash());
  EXPECT_EQ(commit->target_hash, source_.hash());
  EXPECT_LT(commit->stream_bytes, 3 * codec::kBlockElements);
  // It is of no use after all: then all bytes.
  peer.say(MessageType::kNack, Nack{{0, 1}, Code::kWrongBase, true, "damaged again"});
  const auto next = offered(peer);
  ASSERT_TRUE(next);
  EXPECT_TRUE(next->is_anchor);
}

TEST_F(HostileDamage, HashesThatAreNoneBringAllBytes) {
  Damage other = damage();
  other.block_hashes[3].low += 1;  // not of what the hello says is held
  Damage nonsense = damage();
  std::mt19937_64 random(1);
  for (Hash128& each : nonsense.block_hashes) each = {random(), random()};
  Hello as_nonsense = hello();
  as_nonsense.held.hash = source_.view().schema_hash;
  for (const Hash128& each : nonsense.block_hashes)
    as_nonsense.held.hash = as_nonsense.held.hash + each;
  as_nonsense.tip = as_nonsense.held;
  const std::pair<Hello, Damage> sayings[] = {
      {hello(), other}, {hello(), nonsense}, {as_nonsense, nonsense}};
  for (const auto& [said, blocks] : sayings) {
    RawPeer peer = greet(said);
    peer.say(MessageType::kDamage, blocks);
    const auto commit = offered(peer);
    ASSERT_TRUE(commit);
    EXPECT_TRUE(commit->is_anchor);
  }
}

TEST_F(HostileDamage, AnUnknownVersionIsComparedWithTheNewest) {
  Damage lie = damage();
  lie.version = {77, {1, 2}};
  RawPeer peer = greet(hello());
  peer.say(MessageType::kDamage, lie);
  const auto commit = offered(peer);
  ASSERT_TRUE(commit);
  EXPECT_TRUE(commit->is_repair());
}

TEST_F(HostileDamage, WrongCountsAreRefused) {
  for (const bool more : {true, false}) {
    Damage wrong = damage();
    wrong.block_hashes.resize(more ? wrong.block_hashes.size() + 1 : 0);
    RawPeer peer = greet(hello());
    peer.say(MessageType::kDamage, wrong);
    EXPECT_EQ(peer.hear(), MessageType::kRefusal);
    EXPECT_TRUE(peer.is_dropped());
  }
}

TEST_F(HostileDamage, OutOfPlaceItIsRefused) {
  RawPeer early = RawPeer::connect(publisher_->address());
  early.say(MessageType::kDamage, damage());
  EXPECT_TRUE(early.is_dropped());
  RawPeer sound = greet(hello(false));
  sound.say(MessageType::kDamage, damage());
  EXPECT_TRUE(sound.is_dropped());
  RawPeer twice = greet(hello());
  twice.say(MessageType::kDamage, damage());
  twice.say(MessageType::kDamage, damage());
  EXPECT_TRUE(twice.is_dropped());
  RawPeer late = greet(hello());
  late.say(MessageType::kAlive, Alive{});
  EXPECT_EQ(late.hear(), MessageType::kRefusal);
  EXPECT_TRUE(late.is_dropped());
}

// What is large must have been asked for.
TEST_F(HostileDamage, ManyBytesAreNotTakenFromEverybody) {
  const auto head = serialise(MessageHead{MessageType::kDamage, kMaxDamageBytes, 0});
  RawPeer unauthenticated = RawPeer::connect(publisher_->address());
  unauthenticated.send_bytes(head);
  EXPECT_TRUE(unauthenticated.is_dropped());
  RawPeer sound = greet(hello(false));
  sound.send_bytes(head);
  EXPECT_TRUE(sound.is_dropped());
  RawPeer greedy = greet(hello());
  greedy.send_bytes(serialise(MessageHead{MessageType::kDamage, kMaxDamageBytes + 1, 0}));
  EXPECT_TRUE(greedy.is_dropped());
}

TEST_F(HostileDamage, OneThatNeverSaysWhereIsGivenUpAndHoldsNobodyUp) {
  RawPeer silent = greet(hello());
  RawPeer half = greet(hello());
  half.send_bytes(serialise(MessageHead{MessageType::kDamage, 5000, 0}));
  SmallModel copy(7, kElements);
  const auto replica = open_replica(copy.view(), publisher_->address(), repaired());
  (void)follow(*replica, 1);
  EXPECT_EQ(copy.hash(), source_.hash());
  EXPECT_TRUE(silent.is_dropped());
  EXPECT_TRUE(half.is_dropped());
}

// The log is of use to its reader, whatever a replica does in a loop.
TEST_F(HostileDamage, IsToldOnceAndNotEachTime) {
  if (!log_enabled(LogLevel::kWarn)) GTEST_SKIP() << "SPARCL_DEBUG turns warnings off";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) {
    RawPeer peer = greet(hello());
    peer.say(MessageType::kDamage, damage());
    EXPECT_TRUE(offered(peer));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("finds its memory damaged"), std::string::npos) << log;
  EXPECT_EQ(log.find("finds its memory damaged"), log.rfind("finds its memory damaged")) << log;
}

TEST_F(HostileDamage, OneThatLeavesIsForgotten) {
  for (int i = 0; i < 20; ++i) {
    RawPeer peer = greet(hello());
    peer.say(MessageType::kDamage, damage());
  }
  damaged_.poke(5, 0x7002);
  RawPeer last = greet(hello());
  last.say(MessageType::kDamage, damage());
  const auto commit = offered(last);
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->base_hash, damaged_.hash());
}

// A replica that passes updates on repairs nothing: what is said to be damaged is read, and nothing
// is kept of it.
TEST(DamageAtAReplica, IsTheBusinessOfThePublisher) {
  SmallModel copy(7, 1000);
  RawPublisher publisher;
  const auto replica = open_replica(copy.view(), publisher.address(), repaired());
  Hello said;
  RawPeer upstream = publisher.accept(&said);
  upstream.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "a test", {}});
  ASSERT_NE(said.port, 0);
  EXPECT_FALSE(said.damaged);
  Hello child = said;
  child.damaged = true;
  RawPeer peer = RawPeer::connect("127.0.0.1:" + std::to_string(said.port));
  peer.say(MessageType::kHello, child);
  EXPECT_EQ(peer.hear(), MessageType::kWelcome);
  peer.say(MessageType::kDamage, Damage{{1, {2, 3}}, {{4, 5}, {6, 7}}});
  EXPECT_FALSE(peer.hear(0.3));
  EXPECT_TRUE(peer.link().is_open());
}

}  // namespace
}  // namespace sparcl::replication
