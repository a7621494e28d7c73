// Replicas that hold parts of the model: each is sent little beyond them, and holds exactly them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/codec/wire.hpp"
#include "tests/replication/replica_pair.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::TempFolder;
using test::write_text;

using ::testing::HasSubstr;

struct Shard {
  Shard(const std::string& address, model::Schema schema, const std::string& trust = "",
        bool shares_memory = true, HeldTensors* holds = nullptr)
      : tensors(std::move(schema)) {
    if (holds != nullptr) tensors.copy_from(*holds);
    SubscriberOptions options = replica_options();
    options.trust_path = trust;
    options.shares_memory = shares_memory;
    subscriber = std::move(*Subscriber::create(tensors.view(), address, options));
  }
  // Until it holds `version`, which are these bytes.
  void follow(std::uint64_t version, HeldTensors& whole) {
    std::uint64_t held = 0;
    while (held < version) {
      const auto swap = subscriber->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
      held = swap->version;
      stream_bytes += swap->stream_bytes;
      updates += swap->updates;
      anchors += swap->by_anchor ? 1 : 0;
    }
    HeldTensors expected(tensors.schema());
    expected.copy_from(whole);
    ASSERT_EQ(tensors.hash(), expected.hash());
  }

  HeldTensors tensors;
  std::unique_ptr<Subscriber> subscriber;
  std::uint64_t stream_bytes = 0;
  int updates = 0;
  int anchors = 0;
};

class ShardedReplicas : public ::testing::Test {
 protected:
  void open(const std::string& key = "", bool shares_memory = true) {
    PublisherOptions options = local_options();
    options.key_path = key;
    options.shares_memory = shares_memory;
    publisher_ = std::move(*Publisher::create(whole_.view(), options));
  }
  std::uint64_t publish(std::uint64_t every = 100) {
    whole_.change(++version_, every);
    const auto report = publisher_->publish(version_);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? report->stream_bytes : 0;
  }
  std::unique_ptr<Shard> join(model::Schema schema, HeldTensors* holds = nullptr) {
    return std::make_unique<Shard>(publisher_->address(), std::move(schema), "", true, holds);
  }

  HeldTensors whole_{whole_schema()};
  std::unique_ptr<Publisher> publisher_;
  std::uint64_t version_ = 0;
};

TEST_F(ShardedReplicas, HoldTheirPartsOfEveryVersion) {
  for (const bool shares_memory : {true, false}) {
    version_ = 0;
    open("", shares_memory);
    publish();
    std::vector<std::unique_ptr<Shard>> shards;
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      shards.push_back(
          std::make_unique<Shard>(publisher_->address(), shard_schema(rank, 4), "", shares_memory));
    }
    shards.push_back(join(whole_schema()));
    shards.push_back(join(shard_schema(1, 4)));  // a second replica of that rank
    shards.push_back(join({{"norm", DataType::kFloat32, {kHidden}},
                           {"experts", DataType::kFloat32, {kExperts, 64, 32}}}));
    for (auto& each : shards) each->follow(version_, whole_);
    std::uint64_t sent = 0;
    for (auto& each : shards) each->stream_bytes = 0;
    for (int i = 0; i < 8; ++i) {
      sent += publish();
      for (auto& each : shards) {
        each->follow(version_, whole_);
        if (HasFatalFailure()) return;
      }
    }
    for (const auto& each : shards) {
      const double part = static_cast<double>(each->tensors.byte_count()) /
                          static_cast<double>(whole_.byte_count());
      EXPECT_LT(static_cast<double>(each->stream_bytes),
                static_cast<double>(sent) * part * 1.6 + 8 * 500.0);
    }
    EXPECT_TRUE(publisher_->wait(version_, static_cast<int>(shards.size()), 20).ok());
  }
}

TEST_F(ShardedReplicas, JoinBeforeTheFirstVersion) {
  open();
  const auto shard = join(shard_schema(0, 2));
  EXPECT_EQ(shard->subscriber->next(0.3).status().code(), Code::kTimeout);
  publish();
  shard->follow(1, whole_);
}

TEST_F(ShardedReplicas, OneThatComesBackGetsWhatItMisses) {
  open();
  publish();
  auto shard = join(shard_schema(1, 4));
  shard->follow(1, whole_);
  HeldTensors before(whole_schema());
  before.copy_from(whole_);
  shard = nullptr;
  std::uint64_t sent = 0;
  for (int i = 0; i < 3; ++i) sent += publish();
  shard = join(shard_schema(1, 4), &before);
  shard->follow(version_, whole_);
  EXPECT_EQ(shard->anchors, 0);
  EXPECT_LT(shard->stream_bytes, sent / 3);
  shard = nullptr;
  shard = join(shard_schema(1, 4), &whole_);  // it has loaded the newest version elsewhere
  shard->follow(version_, whole_);
  EXPECT_EQ(shard->stream_bytes, 0U);
}

TEST_F(ShardedReplicas, OneThatIsFarBehindGetsOneUpdate) {
  open();
  publish();
  auto shard = join(shard_schema(0, 2));
  shard->follow(1, whole_);
  HeldTensors before(whole_schema());
  before.copy_from(whole_);
  shard = nullptr;
  for (int i = 0; i < 8; ++i) {  // the same elements each time
    std::span<std::byte> out = whole_.tensor(2);
    for (std::size_t at = 0; at < out.size(); at += 64)
      out[at] = static_cast<std::byte>(static_cast<unsigned>(out[at]) + 1);
    ASSERT_TRUE(publisher_->publish(++version_).ok());
  }
  shard = join(shard_schema(0, 2), &before);
  shard->follow(version_, whole_);
  EXPECT_EQ(shard->updates, 1);
  EXPECT_EQ(shard->anchors, 0);
}

TEST_F(ShardedReplicas, WhereMostChangesAllBytesOfAPartAreSent) {
  open();
  publish();
  const auto shard = join(shard_schema(0, 2));
  shard->follow(1, whole_);
  publish(1);
  shard->follow(2, whole_);
  EXPECT_EQ(shard->anchors, 2);
  publish();
  shard->follow(3, whole_);
  EXPECT_EQ(shard->anchors, 2);
}

TEST_F(ShardedReplicas, FollowWhatATrainerHasMarked) {
  open();
  publish();
  const auto shard = join(shard_schema(1, 2));
  shard->follow(1, whole_);
  whole_.tensor(2)[2 * (5 * kHeads + 100)] = std::byte{9};  // row 5, column 100
  const std::uint64_t index = 5 * kHeads + 100;
  codec::ChangedHint mark, nothing;
  mark.indices = {&index, 1};
  const codec::ChangedHint* hints[5] = {&nothing, &nothing, &mark, &nothing, &nothing};
  const auto report = publisher_->publish(++version_, hints);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->changed, 1U);
  shard->follow(2, whole_);
  EXPECT_LT(shard->stream_bytes, shard->tensors.byte_count() + 4000);
}

TEST_F(ShardedReplicas, TakeSignedUpdates) {
  const test::TempFolder folder;
  open(trust::private_file(folder / "key", trust::secret_line(trust::kVectors[0])));
  write_text(folder / "key.pub", trust::public_line(trust::kVectors[0]));
  publish();
  Shard shard(publisher_->address(), shard_schema(2, 4), folder / "key.pub");
  shard.follow(1, whole_);
  publish();
  shard.follow(2, whole_);
}

TEST_F(ShardedReplicas, WhatDoesNotFitIsNamed) {
  open();
  publish();
  const auto says = [&](const model::TensorSchema& tensor) {
    const auto shard = join({tensor});
    Status status;
    for (int i = 0; i < 40 && (status.ok() || status.code() == Code::kTimeout); ++i)
      status = shard->subscriber->next(0.1).status();
    EXPECT_EQ(status.code(), Code::kMismatch);
    return std::string(status.message());
  };
  EXPECT_THAT(says({"gate", DataType::kFloat32, {4}}), HasSubstr("there is no tensor 'gate'"));
  EXPECT_THAT(says({"norm", DataType::kFloat32, {kHidden + 1}}),
              HasSubstr("tensor 'norm' is float32 [256], wanted is float32 [257]"));
  EXPECT_THAT(says({"embed",
                    DataType::kBfloat16,
                    {1024, kHidden},
                    model::TensorSlice{{600, 0}, {8, kHidden}}}),
              HasSubstr("tensor 'embed' is bfloat16 [512, 256]"));
}

// While versions come one after the other.
TEST_F(ShardedReplicas, ComeAndGoAllTheTime) {
  open();
  publish();
  std::vector<std::unique_ptr<Shard>> shards(6);
  std::mt19937_64 random(3);
  for (int i = 0; i < 60; ++i) {
    auto& each = shards[random() % shards.size()];
    each = random() % 3 == 0
               ? nullptr
               : join(shard_schema(random() % 4, 4), random() % 2 == 0 ? &whole_ : nullptr);
    publish(random() % 10 == 0 ? 2 : 100);
  }
  for (auto& each : shards) {
    if (each != nullptr) each->follow(version_, whole_);
  }
}

// --- hostile ---

void say_schema(RawPeer& peer, std::span<const std::byte> bytes) {
  peer.link().queue(MessageType::kSchema, bytes);
  for (int i = 0; i < 5000 && peer.link().flush() && peer.link().queued_bytes() > 0; ++i)
    poll(nullptr, 0, 1);
}

Hello hello_of(const Hash128& schema_hash) {
  Hello hello;
  hello.model_id = kModelId;
  hello.schema_hash = schema_hash;
  hello.wire_version = codec::kWireVersion;
  hello.silence_ms = 5000;
  hello.name = std::string("a test");
  return hello;
}

TEST_F(ShardedReplicas, BadListsOfTensorsAreRefused) {
  open();
  publish();
  const std::vector<std::byte> shard = model::serialise(shard_schema(0, 4));
  std::vector<std::byte> damaged = shard;
  damaged[damaged.size() / 2] ^= std::byte{0x40};
  const std::vector<std::byte> large(kMaxSchemaBytes + 1);
  const std::vector<std::byte> cases[] = {{},
                                          damaged,
                                          std::vector<std::byte>(1 << 20, std::byte{0xff}),
                                          large,
                                          model::serialise(shard_schema(1, 4))};
  for (const auto& bytes : cases) {
    RawPeer peer = RawPeer::connect(publisher_->address());
    Hello hello = hello_of(model::schema_hash(shard_schema(0, 4)));
    hello.name += std::to_string(bytes.size());  // one name would be backed off
    peer.say(MessageType::kHello, hello);
    ASSERT_EQ(peer.hear(), MessageType::kSchemaWanted);
    say_schema(peer, bytes);
    EXPECT_TRUE(peer.is_dropped());
  }
  // Not asked for.
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{1} << 20}) {
    RawPeer peer = RawPeer::connect(publisher_->address());
    say_schema(peer, std::vector<std::byte>(bytes));
    EXPECT_TRUE(peer.is_dropped());
  }
  const auto honest = join(shard_schema(0, 4));
  honest->follow(1, whole_);
}

// A few bytes of an unauthenticated peer, which would cost far more than the model to compare at
// each version.
TEST_F(ShardedReplicas, SlicesThatOverlapAreRefused) {
  open();
  publish();
  const model::TensorSchema all{"embed", DataType::kBfloat16, {512, kHidden}, {}};
  const model::TensorSchema row{
      "embed", DataType::kBfloat16, {512, kHidden}, model::TensorSlice{{7, 0}, {1, kHidden}}};
  for (const model::Schema& part : {model::Schema(50, all), model::Schema(20'000, row)}) {
    RawPeer peer = RawPeer::connect(publisher_->address());
    peer.say(MessageType::kHello, hello_of(model::schema_hash(part)));
    ASSERT_EQ(peer.hear(), MessageType::kSchemaWanted);
    say_schema(peer, model::serialise(part));
    // The longer list is not even read.
    EXPECT_TRUE(peer.hear() == MessageType::kRefusal || !peer.link().is_open());
  }
}

TEST_F(ShardedReplicas, ManyDifferentPartsAreBounded) {
  open();
  publish();
  std::vector<RawPeer> peers;
  for (std::uint64_t i = 0; i < 257; ++i) {
    const model::Schema part{
        {"embed", DataType::kBfloat16, {512, kHidden}, model::TensorSlice{{i, 0}, {1, kHidden}}}};
    peers.push_back(RawPeer::connect(publisher_->address()));
    peers.back().say(MessageType::kHello, hello_of(model::schema_hash(part)));
    ASSERT_EQ(peers.back().hear(), MessageType::kSchemaWanted);
    say_schema(peers.back(), model::serialise(part));
    EXPECT_EQ(peers.back().hear(), i < 256 ? MessageType::kWelcome : MessageType::kRefusal) << i;
  }
  const auto known = join(whole_schema());
  known->follow(1, whole_);
}

}  // namespace
}  // namespace sparcl::replication
