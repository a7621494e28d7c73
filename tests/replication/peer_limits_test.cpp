// What unauthenticated peers can cost a publisher: its time, its memory, its places for replicas.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/base/bytes.hpp"
#include "src/base/fair_mutex.hpp"
#include "src/model/schema.hpp"
#include "tests/replication/rogue_support.hpp"
#include "tests/replication/sharded_model.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;

// With std::mutex the other thread waits for most of the turns.
TEST(FairMutex, AThreadThatTakesItAgainAtOnceLetsOthersHaveTheirTurn) {
  constexpr int kTurns = 1000, kOthers = 20;
  FairMutex mutex;
  std::atomic<int> turns = 0;
  std::thread busy([&] {
    while (turns < kTurns) {
      const std::lock_guard lock(mutex);
      ++turns;
      usleep(1000);
    }
  });
  while (turns == 0) usleep(100);
  for (int i = 0; i < kOthers; ++i) const std::lock_guard lock(mutex);
  EXPECT_LT(turns, kTurns) << "each of them waits for a turn or two";
  turns = kTurns;
  busy.join();
}

// It holds no tensor of the model and is refused by its first number alone, damaged as the rest is.
TEST(PeerLimits, ASchemaOfTooManyTensorsIsRefusedBeforeItIsParsed) {
  const HeldTensors model(whole_schema());
  const auto publisher = open_publisher(model.view());
  ASSERT_TRUE(publisher->publish(1).ok());
  ByteWriter schema;
  schema.write_varint(1'000'000);
  RawPeer peer = RawPeer::connect(publisher->address());
  const HeldVersion none;
  Hello hello{kProtocolVersion,
              "m",
              model::schema_hash(schema.bytes()),
              codec::kWireVersion,
              none,
              none,
              0,
              5000,
              0,
              false,
              "a test"};
  peer.say(MessageType::kHello, hello);
  ASSERT_EQ(peer.hear(), MessageType::kSchemaWanted);
  peer.say(MessageType::kSchema, std::span<const std::byte>(schema.bytes()));
  ASSERT_EQ(peer.hear(), MessageType::kRefusal);
  EXPECT_THAT(parse_refusal(peer.link().content())->text,
              HasSubstr("1000000 tensors and slices: at most"));
}

// Each of them says HELLO, asks for nothing, and is alive.
TEST(PeerLimits, ReplicasThatHaveProvenNothingKeepNoRealOneOut) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{140, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  SmallModel source;
  const auto publisher = open_publisher(source);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_TRUE(publisher->publish(1).ok());
  std::vector<RawPeer> mute;
  for (int i = 0; i < 12; ++i) {
    mute.push_back(RawPeer::connect(publisher->address()));
    mute.back().say(MessageType::kHello, hello_of(source));
    ASSERT_EQ(mute.back().hear(), MessageType::kWelcome);
  }
  const SmallModel held(3);
  const auto replica = open_replica(held, publisher->address());
  const double until = net::monotonic_seconds() + RawPeer::kPatience;
  Result<Subscriber::Swap> swap = replica->next(0.1);
  while (!swap.ok() && net::monotonic_seconds() < until) swap = replica->next(0.1);
  EXPECT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_GE(nlohmann::json::parse(publisher->status()).at("connections_evicted").get<int>(), 1);
}

// Each list of slices asks for an anchor of nearly the whole model, and takes nothing of it.
TEST(PeerLimits, ListsOfSlicesTakeNoMoreThanTheBudget) {
  constexpr std::uint64_t kRows = 512;
  const model::Schema whole{{"w", DataType::kBfloat16, {kRows, 1024}}};
  HeldTensors model(whole);
  model.change(1, 2);
  PublisherOptions options = local_options();
  options.peer_bytes = 3 * model.byte_count();
  const auto publisher = open_publisher(model.view(), options);
  ASSERT_TRUE(publisher->publish(1).ok());
  std::vector<RawPeer> peers;
  const auto peer_bytes = [&] {
    return nlohmann::json::parse(publisher->status()).at("peer_bytes").get<std::uint64_t>();
  };
  for (std::uint64_t k = 1; k <= 16; ++k) {
    const model::Schema part{
        {"w", DataType::kBfloat16, {kRows, 1024}, model::TensorSlice{{0, 0}, {kRows - k, 1024}}}};
    const HeldVersion none;
    peers.push_back(RawPeer::connect(publisher->address()));
    peers.back().say(MessageType::kHello,
                     Hello{kProtocolVersion, "m", model::schema_hash(part), codec::kWireVersion,
                           none, none, 0, 5000, 0, false, fmt::format("a thief {}", k)});
    ASSERT_EQ(peers.back().hear(), MessageType::kSchemaWanted);
    peers.back().say(MessageType::kSchema, std::span<const std::byte>(model::serialise(part)));
    EXPECT_LE(peer_bytes(), options.peer_bytes);
  }
  int offered = 0;
  for (RawPeer& peer : peers)
    offered +=
        peer.hear() == MessageType::kWelcome && peer.hear(0.2) == MessageType::kOffer ? 1 : 0;
  EXPECT_GE(offered, 1) << "some are served";
  EXPECT_LE(peer_bytes(), options.peer_bytes);
}

void say_list(RawPeer& peer, const std::vector<std::byte>& list) {
  peer.link().queue(MessageType::kSchema, std::span<const std::byte>(list));
  for (int i = 0; i < 5000 && peer.link().flush() && peer.link().queued_bytes() > 0; ++i)
    poll(nullptr, 0, 1);
}

Hello hello_with_list(const std::vector<std::byte>& list, const std::string& name) {
  const HeldVersion none;
  return {kProtocolVersion,
          "m",
          model::schema_hash(std::span(list)),
          codec::kWireVersion,
          none,
          none,
          0,
          5000,
          0,
          false,
          name};
}

TEST(PeerBudget, ChargesEndWithTheirOwnersAndMoveOnceTheseAreProven) {
  const auto whole = std::make_shared<PeerBudget>(std::uint64_t{100} << 20);
  const auto account = PeerBudget::within(whole);
  {
    PeerBudget::Charge unproven = PeerBudget::Charge::unproven(account);
    unproven.set(1000);
    PeerBudget::Charge update(account, 300);
    EXPECT_EQ(whole->used(), 1300U);
    EXPECT_EQ(account->used(), 1300U);
    EXPECT_EQ(whole->unproven(), 1000U);
    EXPECT_TRUE(whole->has_unproven_room(whole->unproven_limit() - 1000));
    EXPECT_FALSE(whole->has_unproven_room(whole->unproven_limit() - 999));
    unproven.prove();
    EXPECT_EQ(whole->unproven(), 0U);
    const PeerBudget::Charge moved = std::move(update);
    EXPECT_EQ(whole->used(), 1300U);
    EXPECT_FALSE(account->has_room(whole->limit()));
    EXPECT_FALSE(account->has_room(UINT64_MAX));
  }
  EXPECT_EQ(whole->used(), 0U);
  EXPECT_EQ(account->used(), 0U);
}

// Each of them is asked for its list of tensors, and sends nearly all of it.
TEST(PeerLimits, UnfinishedListsTakeNoMoreThanTheUnprovenPart) {
  const HeldTensors model(whole_schema());
  const auto publisher = open_publisher(model.view());
  ASSERT_TRUE(publisher->publish(1).ok());
  const std::uint64_t limit = figure(*publisher, "peer_bytes_unproven_limit");
  std::vector<std::byte> list(std::size_t{1} << 20);
  const MessageHead head{MessageType::kSchema, static_cast<std::uint32_t>(list.size()), 0};
  std::vector<RawPeer> peers;
  for (std::uint64_t i = 0; i < 4 * limit / list.size() && i < 60; ++i) {
    peers.push_back(RawPeer::connect(publisher->address()));
    peers.back().say(MessageType::kHello, hello_with_list(list, fmt::format("a thief {}", i)));
    const std::optional<MessageType> said = peers.back().hear();
    if (said != MessageType::kSchemaWanted) continue;  // there were too many
    peers.back().send_bytes(serialise(head));
    peers.back().send_bytes(std::span(list).first(list.size() - 1));
    EXPECT_LE(figure(*publisher, "peer_bytes_unproven"), limit);
  }
  const std::vector<std::byte> part = model::serialise(shard_schema(0, 4));
  std::optional<MessageType> said;
  for (const double until = net::monotonic_seconds() + RawPeer::kPatience;
       said != MessageType::kWelcome && net::monotonic_seconds() < until;) {
    RawPeer honest = RawPeer::connect(publisher->address());
    honest.say(MessageType::kHello, hello_with_list(part, "an honest one"));
    said = honest.hear();
    if (said == MessageType::kSchemaWanted) {
      say_list(honest, part);
      said = honest.hear();
    }
  }
  EXPECT_EQ(said, MessageType::kWelcome);
  EXPECT_GE(figure(*publisher, "connections_evicted") + figure(*publisher, "connections_refused"),
            1U);
  EXPECT_LE(figure(*publisher, "peer_bytes_unproven"), limit);
}

// Where each slice lies takes memory as long as the part is served.
TEST(PeerLimits, LongListsTakeNoMoreThanTheUnprovenPart) {
  model::Schema whole;
  for (int i = 0; i < 300; ++i) whole.push_back({fmt::format("t{}", i), DataType::kUint8, {64}});
  const HeldTensors model(whole);
  const auto publisher = open_publisher(model.view());
  ASSERT_TRUE(publisher->publish(1).ok());
  const std::uint64_t limit = figure(*publisher, "peer_bytes_unproven_limit");
  std::vector<RawPeer> peers;
  int welcome = 0;
  for (std::uint64_t k = 0; k < 6; ++k) {
    model::Schema part;
    for (const model::TensorSchema& each : whole) {
      for (std::uint64_t i = 0; i < 64 - k; ++i) {
        part.push_back({each.name, each.datatype, each.shape, model::TensorSlice{{i}, {1}}});
      }
    }
    const std::vector<std::byte> list = model::serialise(part);
    peers.push_back(RawPeer::connect(publisher->address()));
    peers.back().say(MessageType::kHello, hello_with_list(list, fmt::format("a thief {}", k)));
    ASSERT_EQ(peers.back().hear(), MessageType::kSchemaWanted);
    say_list(peers.back(), list);
    welcome += peers.back().hear() == MessageType::kWelcome ? 1 : 0;
    EXPECT_LE(figure(*publisher, "peer_bytes_unproven"), limit);
  }
  EXPECT_GE(welcome, 1);
  EXPECT_LT(welcome, 6);
}

// Each of them is sent all bytes of a version, and takes none: the anchors of versions that are
// long gone must not pile up.
TEST(PeerLimits, AnchorsThatNobodyElseNeedsAreWithinTheBudget) {
  HeldTensors model({{"w", DataType::kBfloat16, {4096, 1024}}});
  PublisherOptions options = local_options();
  options.peer_bytes = 2 * model.byte_count();
  options.shares_memory = false;
  options.silence_s = 120;  // the peers say nothing while the versions are made
  const auto publisher = open_publisher(model.view(), options);
  std::vector<RawPeer> peers;
  for (std::uint64_t version = 1; version <= 12; ++version) {
    model.change(version, 1);
    ASSERT_TRUE(publisher->publish(version).ok());
    if (version % 2 == 0) continue;  // then no update leads on from the anchor before
    peers.push_back(RawPeer::connect(publisher->address()));
    peers.back().say(MessageType::kHello, hello_with({0, {}}, model.view().schema_hash));
    ASSERT_EQ(peers.back().hear(), MessageType::kWelcome);
    ASSERT_EQ(peers.back().hear(), MessageType::kOffer);
    const Commit commit = parse_offer(peers.back().link().content())->commit;
    EXPECT_TRUE(commit.is_anchor);
    peers.back().say(MessageType::kRequest,
                     Request{{commit.base_version, commit.version}, 0, true});
    ASSERT_EQ(peers.back().hear(), MessageType::kChunk);
  }
  for (const double until = net::monotonic_seconds() + RawPeer::kPatience;
       figure(*publisher, "peer_bytes") > options.peer_bytes && net::monotonic_seconds() < until;) {
    usleep(1000);
  }
  EXPECT_LE(figure(*publisher, "peer_bytes"), options.peer_bytes);
  EXPECT_GE(figure(*publisher, "connections_evicted"), 1U);
  HeldTensors copy(model.schema());
  const auto replica =
      std::move(*Subscriber::create(copy.view(), publisher->address(), replica_options()));
  while (replica->versions().held < 12) ASSERT_TRUE(replica->next(RawPeer::kPatience).ok());
  EXPECT_EQ(copy.hash(), model.hash());
}

// The thread has begun with a list, and is held up there. 0: publish() is done all the same.
int publish_beside_a_list() {
  HeldTensors model(whole_schema());
  Publisher* const publisher =
      open_publisher(model.view()).release();  // its end would wait for the thread
  if (!publisher->publish(1).ok()) return 1;
  const std::uint64_t before = figure(*publisher, "peer_bytes_unproven");
  std::vector<std::byte> list = model::serialise(shard_schema(0, 4));
  RawPeer peer = RawPeer::connect(publisher->address());
  peer.say(MessageType::kHello, hello_with_list(list, "a test"));
  if (peer.hear() != MessageType::kSchemaWanted) return 2;
  say_list(peer, list);
  while (figure(*publisher, "peer_bytes_unproven") < before + list.size()) usleep(1000);
  usleep(200'000);
  model.change(1, 2);
  if (!publisher->publish(2).ok()) return 3;
  if (figure(*publisher, "version") != 2) return 4;
  return peer.hear(0.1) ? 5 : 0;  // the list is not answered yet
}

TEST(PeerLimits, PublishDoesNotWaitForAList) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("SPARCL_TEST_FAILPOINT", "publisher.list:1:delay=60000", 1);
  EXPECT_EXIT(std::_Exit(publish_beside_a_list()), ::testing::ExitedWithCode(0), "");
  ::unsetenv("SPARCL_TEST_FAILPOINT");
}

// Its session has an answer to give, and is of no replica: the report once took it for one.
TEST(PeerLimits, OneThatDoesNotReadItsAnswerIsNoReplica) {
  const SmallModel source;
  PublisherOptions options = local_options();
  options.description.resize(std::size_t{30} << 20);
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  RawPeer peer = RawPeer::connect(publisher->address());
  peer.say(MessageType::kModelQuery, std::span<const std::byte>());
  pollfd entry{peer.link().fd(), POLLIN, 0};
  ASSERT_EQ(net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + RawPeer::kPatience),
            1);
  EXPECT_EQ(publisher->count(0).connected, 0);
  EXPECT_EQ(nlohmann::json::parse(publisher->status()).at("replicas").size(), 0U);
}

}  // namespace
}  // namespace sparcl::replication
