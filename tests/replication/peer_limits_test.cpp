// What unauthenticated peers can cost a publisher: its time, its memory, its places for replicas.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
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
  RawPeer peer = RawPeer::connect(publisher->address());
  const HeldVersion none;
  Hello hello{kProtocolVersion, "m", Hash128{1, 2}, codec::kWireVersion, none, none, 0, 5000, 0, false, "a test"};
  peer.say(MessageType::kHello, hello);
  ASSERT_EQ(peer.hear(), MessageType::kSchemaWanted);
  ByteWriter schema;
  schema.write_varint(1'000'000);
  peer.say(MessageType::kSchema, std::span<const std::byte>(schema.bytes()));
  ASSERT_EQ(peer.hear(), MessageType::kRefusal);
  EXPECT_THAT(parse_refusal(peer.link().content())->text, HasSubstr("1000000 tensors and slices: at most"));
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
  const double until = monotonic_seconds() + RawPeer::kPatience;
  Result<Subscriber::Swap> swap = replica->next(0.1);
  while (!swap.ok() && monotonic_seconds() < until) swap = replica->next(0.1);
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
  const auto is_bounded = [&] {
    return nlohmann::json::parse(publisher->status()).at("peer_bytes").get<std::uint64_t>() <= options.peer_bytes;
  };
  for (std::uint64_t k = 1; k <= 16; ++k) {
    const model::Schema part{{"w", DataType::kBfloat16, {kRows, 1024}, model::TensorSlice{{0, 0}, {kRows - k, 1024}}}};
    const HeldVersion none;
    peers.push_back(RawPeer::connect(publisher->address()));
    peers.back().say(MessageType::kHello, Hello{kProtocolVersion, "m", model::schema_hash(part), codec::kWireVersion, none, none, 0,
                                               5000, 0, false, fmt::format("a thief {}", k)});
    ASSERT_EQ(peers.back().hear(), MessageType::kSchemaWanted);
    peers.back().say(MessageType::kSchema, std::span<const std::byte>(model::serialise(part)));
    EXPECT_TRUE(is_bounded());
  }
  int offered = 0;
  for (RawPeer& peer : peers) offered += peer.hear() == MessageType::kWelcome && peer.hear(0.2) == MessageType::kOffer ? 1 : 0;
  EXPECT_GE(offered, 1) << "some are served";
  EXPECT_TRUE(is_bounded());
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
  ASSERT_EQ(poll_until(std::span(&entry, 1), monotonic_seconds() + RawPeer::kPatience), 1);
  EXPECT_EQ(publisher->count(0).connected, 0);
  EXPECT_EQ(nlohmann::json::parse(publisher->status()).at("replicas").size(), 0U);
}

}  // namespace
}  // namespace sparcl::replication
