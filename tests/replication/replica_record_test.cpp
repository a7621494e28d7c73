// What a replica that trusts keys remembers, and what it is told of a model.

#include "src/replication/replica_record.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "src/replication/model_description.hpp"
#include "src/replication/query.hpp"
#include "src/replication/record_file.hpp"
#include "tests/replication/rogue_support.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::read_text;
using test::TempFolder;
using test::write_text;

class ReplicaRecord : public ::testing::Test {
 protected:
  ReplicaRecord() {
    for (const char* name : {"own", "other"})
      EXPECT_TRUE(trust::SigningKey::generate()->save(folder_ / name).ok());
  }
  PublisherOptions signing(const std::string& key = "own") const {
    PublisherOptions options = local_options();
    options.key_path = folder_ / key;
    return options;
  }
  SubscriberOptions trusting() const {
    SubscriberOptions options = replica_options();
    options.trust_path = folder_ / "own.pub";
    return options;
  }
  trust::TrustedKeys trusted(const std::string& key = "own") const {
    return std::move(*trust::TrustedKeys::load(folder_ / (key + ".pub")));
  }
  // All bytes of the newest version, signed.
  Recorded record_newest(Publisher& publisher) const {
    return record_update(publisher, {0, SmallModel(1).hash()}, SmallModel(1).view().schema_hash);
  }
  // What a replica with this memory makes of an update by a rogue that poses as its publisher.
  Status take(const Recorded& update, const std::optional<Offer>& latest) const {
    SmallModel copy(1);
    RawPublisher rogue;
    SubscriberOptions options = trusting();
    options.latest = latest;
    const auto replica = open_replica(copy, rogue.address(), options);
    Hello hello;
    RawPeer peer = rogue.accept(&hello);
    EXPECT_EQ(hello.latest.version, latest ? latest->commit.version : 0);
    const Commit& commit = update.offer.commit;
    peer.say(MessageType::kWelcome,
             Welcome{kProtocolVersion, "m", commit.epoch, commit.version, 5000, "rogue", {}});
    replay(peer, update);
    return replica->next(10).status();
  }

  TempFolder folder_;
};

TEST_F(ReplicaRecord, ComesBackAndSaysWhatIsWrong) {
  SmallModel source;
  const auto publisher = open_publisher(source, signing());
  ASSERT_TRUE(publisher->publish(4).ok());
  const Offer latest = record_newest(*publisher).offer;
  const std::string path = record_path_of(folder_ / "model.safetensors");
  EXPECT_EQ(path, folder_ / "model.safetensors.sparcl-record");
  EXPECT_FALSE(*load_replica_record(path, trusted(), kModelId));
  ASSERT_EQ(save_replica_record(path, latest).message(), "");
  const Result<std::optional<Offer>> read = load_replica_record(path, trusted(), kModelId);
  ASSERT_TRUE(read.ok() && *read) << read.status().message();
  EXPECT_EQ((*read)->commit, latest.commit);
  EXPECT_FALSE(*load_replica_record(path, trusted("other"), kModelId))
      << "its key may be known to others by now";
  EXPECT_EQ(load_replica_record(path, trusted(), "another").status().code(), Code::kMismatch);
  const std::string whole = read_text(path);
  for (std::size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    write_text(path, damaged);
    const Status status = load_replica_record(path, trusted(), kModelId).status();
    ASSERT_EQ(status.code(), Code::kCorrupt) << i;
    EXPECT_NE(status.message().find(path), std::string::npos);
  }
  write_text(path, "");
  EXPECT_EQ(load_replica_record(path, trusted(), kModelId).status().code(), Code::kCorrupt);
}

TEST_F(ReplicaRecord, LongNamesHaveOneToo) {
  const std::string path = record_path_of(folder_ / std::string(250, 'x'));
  EXPECT_TRUE(write_record(path, "a test", {{"name", "value"}}).ok()) << path;
  EXPECT_NE(path, record_path_of(folder_ / std::string(251, 'x')));
}

// Signed or not: what comes after a restart is never older than what was held before it.
TEST_F(ReplicaRecord, AnOlderSignedVersionIsRefusedAfterARestart) {
  SmallModel source;
  const auto publisher = open_publisher(source, signing());
  ASSERT_TRUE(publisher->publish(1).ok());
  const Recorded first = record_newest(*publisher);
  source.step(1);
  ASSERT_TRUE(publisher->publish(2).ok());
  source.step(2);
  ASSERT_TRUE(publisher->publish(3).ok());
  const Recorded third =
      record_update(*publisher, {0, SmallModel(1).hash()}, source.view().schema_hash,
                    LatestHeld{first.offer.commit.epoch, 3, {}});
  ASSERT_TRUE(first.offer.commit.version == 1 && third.offer.commit.version == 3);
  const Status refused = take(first, third.offer);
  EXPECT_EQ(refused.code(), Code::kUnauthorized);
  EXPECT_NE(refused.message().find("version 1 is older than version"), std::string::npos)
      << refused.message();
  EXPECT_EQ(take(third, third.offer).message(), "") << "FILE may hold less than its record";
  EXPECT_EQ(take(third, first.offer).message(), "");
  EXPECT_EQ(take(first, {}).message(), "") << "without a record it is the first";

  Offer later_life = third.offer;  // of a later publisher, whose numbers began anew
  later_life.commit.epoch += 1;
  later_life.commit.version = 1;
  EXPECT_EQ(take(third, later_life).code(), Code::kUnauthorized);
}

// A publisher has older bytes ready: a replica that was further is given newer ones.
TEST_F(ReplicaRecord, OneThatLostItsFileIsNotOfferedWhatItRefuses) {
  SmallModel source, copy(9);
  const auto publisher = open_publisher(source, signing());
  ASSERT_TRUE(publisher->publish(1).ok());
  (void)record_newest(*publisher);  // all bytes of version 1 are kept
  source.step(1, 10);
  ASSERT_TRUE(publisher->publish(2).ok());
  SubscriberOptions options = trusting();
  {
    SmallModel before(8);
    const auto replica = open_replica(before, publisher->address(), options);
    while (replica->versions().held < 2) ASSERT_TRUE(replica->next(20).ok());
    options.latest = replica->latest().proof;
  }
  ASSERT_TRUE(options.latest && options.latest->commit.version == 2);
  const auto replica = open_replica(copy, publisher->address(), options);
  ASSERT_TRUE(replica->next(20).ok()) << replica->trouble().message();
  EXPECT_EQ(replica->versions().held, 2U);
  EXPECT_EQ(copy.hash(), source.hash());
}

TEST_F(ReplicaRecord, IsKeptByASubscriberThatIsToldWhere) {
  SmallModel source, copy(7);
  const auto publisher = open_publisher(source, signing());
  ASSERT_TRUE(publisher->publish(1).ok());
  SubscriberOptions options = trusting();
  options.record_path = folder_ / "record";
  {
    const auto replica = open_replica(copy, publisher->address(), options);
    ASSERT_TRUE(replica->next(20).ok());
  }
  {
    const auto again = open_replica(copy, publisher->address(), options);
    EXPECT_EQ(again->latest().version, 1U);
    EXPECT_EQ(again->latest().proof->commit.target_hash, source.hash());
  }
  write_text(options.record_path, "nothing");
  EXPECT_EQ(Subscriber::create(copy.view(), publisher->address(), options).status().code(),
            Code::kCorrupt);
  options.trust_path.clear();
  EXPECT_EQ(Subscriber::create(copy.view(), publisher->address(), options).status().code(),
            Code::kInvalidArgument);
}

TEST_F(ReplicaRecord, OnesOwnStepBackIsNoRollback) {
  SmallModel source, copy(7);
  const auto publisher = open_publisher(source, signing());
  ASSERT_TRUE(publisher->publish(1).ok());
  const auto replica = open_replica(copy, publisher->address(), trusting());
  ASSERT_TRUE(replica->next(20).ok());
  source.step(1);
  ASSERT_TRUE(publisher->publish(2).ok());
  ASSERT_TRUE(replica->next(20).ok());
  ASSERT_TRUE(replica->pin(1).ok());
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(replica->latest().version, 1U);
  ASSERT_TRUE(replica->pin(0).ok());
  while (replica->versions().held < 2) ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(replica->latest().version, 2U);
}

TEST_F(ReplicaRecord, TrustedKeysNeedAModelId) {
  SmallModel copy;
  SubscriberOptions options = trusting();
  options.model_id.clear();
  const Status status = Subscriber::create(copy.view(), "127.0.0.1:1", options).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("model id"), std::string::npos) << status.message();
}

TEST_F(ReplicaRecord, ADescriptionIsTakenAsItWasSigned) {
  SmallModel source;
  PublisherOptions options = signing();
  options.description = {std::byte{1}, std::byte{2}, std::byte{3}};
  const auto publisher = open_publisher(source, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  const Result<ModelReply> asked = query_model(publisher->address(), 20);
  ASSERT_TRUE(asked.ok()) << asked.status().message();
  EXPECT_EQ(check_description(*asked, trusted(), asked->epoch).message(), "");
  EXPECT_EQ(check_description(*asked, trusted(), asked->epoch + 1).code(), Code::kUnauthorized);
  EXPECT_EQ(check_description(*asked, trusted("other"), 0).code(), Code::kUnauthorized);
  const auto expect_refused = [&](auto&& change) {
    ModelReply reply = *asked;
    change(reply);
    EXPECT_EQ(check_description(reply, trusted(), 0).code(), Code::kUnauthorized);
  };
  expect_refused([](ModelReply& reply) { reply.signatures.clear(); });
  expect_refused([](ModelReply& reply) { reply.description[1] = std::byte{9}; });
  expect_refused([](ModelReply& reply) { reply.schema.push_back(std::byte{0}); });
  expect_refused([](ModelReply& reply) { reply.model_id = "another"; });
  expect_refused([](ModelReply& reply) { reply.epoch += 1; });
  // No signature of a commit is one of a description.
  const Recorded update = record_newest(*publisher);
  expect_refused([&](ModelReply& reply) { reply.signatures = update.offer.signatures; });
}

}  // namespace
}  // namespace sparcl::replication
