// A replica that comes with bytes: those of the publisher are taken for what they are, others
// never, whatever their state hash is.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/replication/forged_state.hpp"
#include "tests/replication/rogue_support.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::TempFolder;

struct Came {
  std::uint64_t stream_bytes = 0;
  int anchors = 0;
  std::uint64_t damaged_blocks = 0;
};

Came come_to(Subscriber& replica, std::uint64_t version) {
  Came came;
  while (replica.versions().held < version) {
    const Result<Subscriber::Swap> swap = replica.next(20);
    EXPECT_TRUE(swap.ok()) << swap.status().message();
    if (!swap.ok()) break;
    came.stream_bytes += swap->stream_bytes;
    came.anchors += swap->by_anchor ? 1 : 0;
    came.damaged_blocks += swap->damaged_blocks;
  }
  return came;
}

// Over the network or by memory, signed or not.
struct Ways {
  bool is_signed, is_near;
};
class VouchedStates : public ::testing::TestWithParam<Ways> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(forgery().is_found());
    PublisherOptions options = local_options();
    options.shares_memory = GetParam().is_near;
    if (GetParam().is_signed) {
      const Result<trust::SigningKey> key = trust::SigningKey::generate();
      ASSERT_TRUE(key.ok() && key->save(folder_ / "key").ok());
      options.key_path = folder_ / "key";
    }
    source.step(99, 200'000);  // all bytes are no small thing
    forgery().prepare(source.first_block());
    publisher = open_publisher(source, options);
    publish();
  }
  // Elsewhere than the forgery.
  void publish() {
    ++version;
    for (std::size_t i = 0; i < 500; ++i)
      source.poke(100'000 + (i * 77 + version) % 90'000, static_cast<std::uint16_t>(i + version));
    ASSERT_TRUE(publisher->publish(version).ok());
  }
  std::unique_ptr<Subscriber> start(const SmallModel& model) const {
    SubscriberOptions options = replica_options();
    options.shares_memory = GetParam().is_near;
    if (GetParam().is_signed) options.trust_path = folder_ / "key.pub";
    return open_replica(model, publisher->address(), options);
  }
  // Other weights that the state hash does not tell from these.
  void forge(SmallModel& model) const {
    model.copy_from(source);
    forgery().apply(model.first_block());
    ASSERT_EQ(model.hash(), source.hash());
    ASSERT_FALSE(model.is_same_as(source));
  }

  SmallModel source, copy;
  std::unique_ptr<Publisher> publisher;
  std::uint64_t version = 0;

 private:
  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Ways, VouchedStates,
                         ::testing::Values(Ways{false, false}, Ways{false, true},
                                           Ways{true, false}),
                         [](const auto& each) {
                           return std::string(each.param.is_signed ? "Signed" : "Unsigned") +
                                  (each.param.is_near ? "ByMemory" : "");
                         });

TEST_P(VouchedStates, TheNewestVersionsBytesAreTakenForIt) {
  copy.copy_from(source);
  const auto replica = start(copy);
  const Came came = come_to(*replica, version);
  EXPECT_EQ(came.anchors, 0);
  EXPECT_EQ(came.stream_bytes, 0U);
  publish();
  EXPECT_EQ(come_to(*replica, version).anchors, 0);
  EXPECT_TRUE(copy.is_same_as(source));
  ASSERT_TRUE(publisher->wait(version, 1, 20).ok());
}

TEST_P(VouchedStates, AnEarlierVersionsBytesAreLedOn) {
  copy.copy_from(source);
  for (int i = 0; i < 4; ++i) publish();
  const auto replica = start(copy);
  const Came came = come_to(*replica, version);
  EXPECT_EQ(came.anchors, 0);
  EXPECT_LT(came.stream_bytes, 50'000U);
  EXPECT_TRUE(copy.is_same_as(source));
}

// By a label, by an update: neither is for these bytes.
TEST_P(VouchedStates, ForgedBytesOfTheNewestVersionAreReplaced) {
  forge(copy);
  const auto replica = start(copy);
  const Came came = come_to(*replica, version);
  EXPECT_EQ(came.anchors, 0);
  EXPECT_EQ(came.damaged_blocks, 1U);
  EXPECT_TRUE(copy.is_same_as(source));
  publish();
  EXPECT_EQ(come_to(*replica, version).anchors, 0);
  EXPECT_TRUE(copy.is_same_as(source));
}

TEST_P(VouchedStates, ForgedBytesOfAnEarlierVersionAreReplaced) {
  forge(copy);
  for (int i = 0; i < 3; ++i) publish();
  const auto replica = start(copy);
  const Came came = come_to(*replica, version);
  EXPECT_EQ(came.anchors, 0);
  EXPECT_EQ(came.damaged_blocks, 1U);
  EXPECT_TRUE(copy.is_same_as(source));
}

TEST_P(VouchedStates, ForgedBytesDoNotCountAsHeld) {
  forge(copy);
  const auto replica = start(copy);
  EXPECT_EQ(replica->versions().held, 0U);
  EXPECT_EQ(publisher->count(version).holding, 0);
  (void)come_to(*replica, version);
  ASSERT_TRUE(publisher->wait(version, 1, 20).ok());
}

// The rollback is of this replica's own memory.
TEST_P(VouchedStates, OneThatGoesBackIsLedOnAgain) {
  const auto replica = start(copy);
  (void)come_to(*replica, version);
  publish();
  (void)come_to(*replica, version);
  ASSERT_TRUE(replica->pin(version - 1).ok());
  const Result<Subscriber::Swap> back = replica->next(20);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_TRUE(back->went_back);
  ASSERT_TRUE(replica->pin(0).ok());
  publish();
  EXPECT_EQ(come_to(*replica, version).anchors, 0);
  EXPECT_TRUE(copy.is_same_as(source));
}

TEST_P(VouchedStates, AVersionWithTheSameBytesIsALabelForOneThatHoldsThem) {
  const auto replica = start(copy);
  (void)come_to(*replica, version);
  ASSERT_TRUE(publisher->publish(++version).ok());
  EXPECT_EQ(come_to(*replica, version).anchors, 0);
  EXPECT_TRUE(copy.is_same_as(source));
}

// The digest is made in the background, and goes on when a version comes.
TEST(VouchedState, IsComparedWhileVersionsArePublished) {
  constexpr std::uint64_t kElements = 12'000'000;  // three steps of the publisher's
  SmallModel source(0, kElements), copy(0, kElements);
  const auto publisher = open_publisher(source);
  source.step(1, 1'000'000);
  ASSERT_TRUE(publisher->publish(1).ok());
  copy.copy_from(source);
  std::atomic<bool> ends = false;
  std::uint64_t last = 1;
  std::thread trainer([&] {
    while (!ends) {
      source.step(++last, 2000);
      ASSERT_TRUE(publisher->publish(last).ok());
      usleep(5'000);
    }
  });
  const auto replica = open_replica(copy, publisher->address());
  while (replica->versions().held == 0) ASSERT_TRUE(replica->next(20).ok());
  ends = true;
  trainer.join();
  (void)come_to(*replica, last);
  EXPECT_TRUE(copy.is_same_as(source));
}

TEST(VouchedState, OfASlice) {
  for (const bool is_forged : {false, true}) {
    HeldTensors source(whole_schema());
    source.change(1, 2);
    forgery().prepare(source.tensor(0).data());  // the first block of the slice, too
    const auto publisher = open_publisher(source.view());
    ASSERT_TRUE(publisher->publish(1).ok());
    HeldTensors copy(shard_schema(0, 2)), expected(shard_schema(0, 2));
    copy.copy_from(source);
    expected.copy_from(source);
    if (is_forged) forgery().apply(copy.tensor(0).data());
    ASSERT_EQ(copy.hash(), expected.hash());
    const auto replica = open_replica(copy.view(), publisher->address());
    const Came came = come_to(*replica, 1);
    EXPECT_EQ(came.anchors, 0);
    EXPECT_EQ(came.damaged_blocks, is_forged ? 1U : 0U);
    for (std::size_t i = 0; i < copy.schema().size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(copy.tensor(i), expected.tensor(i))) << i;
    }
  }
}

// Whatever a publisher offers: nothing leads on from bytes that nobody has vouched for.
TEST(VouchedState, AReplicaAppliesNoDeltaLabelOrRepairToOtherBytes) {
  for (const char* kind : {"delta", "label", "repair"}) {
    SmallModel copy(1), before(1);
    RawPublisher publisher;
    const auto replica = open_replica(copy, publisher.address());
    Hello hello;
    RawPeer peer = publisher.accept(&hello);
    EXPECT_FALSE(hello.held_is_vouched || hello.tip_is_vouched);
    peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", {}});
    Commit commit;
    commit.model_id = kModelId;
    commit.epoch = 1;
    commit.version = 2;
    commit.schema_hash = hello.schema_hash;
    commit.base_version = kind == std::string("delta") ? 1 : 0;
    commit.base_hash = commit.target_hash = hello.held.hash;
    peer.say(MessageType::kOffer,
             Offer{sealed(commit, noise_of(kind == std::string("label") ? 0 : 1000).bytes()), {}});
    ASSERT_EQ(peer.hear(), MessageType::kNack) << kind;
    const Result<Nack> nack = parse_nack(peer.link().content());
    EXPECT_EQ(nack->code, Code::kWrongBase);
    EXPECT_TRUE(nack->wants_anchor);
    EXPECT_TRUE(copy.is_same_as(before));
  }
}

// The digest itself is to be the publisher's.
TEST(VouchedState, AnUnsignedDigestIsNoneForOneThatTrustsKeys) {
  const TempFolder folder;
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok() && key->save(folder / "key").ok());
  for (const bool is_signed : {false, true}) {
    SmallModel copy(1);
    SubscriberOptions options = replica_options();
    options.trust_path = folder / "key.pub";
    RawPublisher publisher;
    const auto replica = open_replica(copy, publisher.address(), options);
    RawPeer peer = publisher.accept();
    peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "rogue", {}});
    Identity identity = identity_of(copy.view(), 1, 1);
    if (is_signed) identity.signatures = {{key->public_key(), key->sign(signed_bytes(identity))}};
    peer.say(MessageType::kIdentity, identity);
    EXPECT_EQ(peer.hear(), is_signed ? MessageType::kAck : MessageType::kRefusal);
  }
}

// Damage that no version has the state hash of, where the replica says that it came with a copy.
struct Copies : ::testing::Test {
  static constexpr std::uint64_t kElements = 2'000'000;  // 31 blocks, and one of the bias
  SmallModel source{0, kElements}, copy{0, kElements};
  std::unique_ptr<Publisher> publisher;
  SubscriberOptions options = replica_options();
  void SetUp() override {
    source.step(99, kElements);
    publisher = open_publisher(source);
    ASSERT_TRUE(publisher->publish(1).ok());
    copy.copy_from(source);
    options.holds_copy = true;
  }
};

TEST_F(Copies, AreMendedBlockByBlock) {
  for (const std::size_t at : {3UL, 400'000UL, 400'001UL, 1'999'999UL})
    copy.poke(at, copy.at(at) ^ 7U);
  const auto replica = open_replica(copy, publisher->address(), options);
  const Came came = come_to(*replica, 1);
  EXPECT_EQ(came.anchors, 0);
  EXPECT_EQ(came.damaged_blocks, 3U);
  EXPECT_LT(came.stream_bytes, 4 * 131'072U);
  EXPECT_TRUE(copy.is_same_as(source));
  source.step(5);
  ASSERT_TRUE(publisher->publish(2).ok());
  EXPECT_EQ(come_to(*replica, 2).anchors, 0);
  EXPECT_TRUE(copy.is_same_as(source));
  ASSERT_TRUE(publisher->wait(2, 1, 20).ok());
}

TEST_F(Copies, WithTwoSetsOfArraysAreMendedToo) {
  copy.poke(400'000, copy.at(400'000) ^ 7U);
  options.double_buffer = true;
  const auto replica = open_replica(copy, publisher->address(), options);
  EXPECT_EQ(come_to(*replica, 1).damaged_blocks, 1U);
  EXPECT_EQ(std::memcmp(replica->array(0), source.view().arrays[0], kElements * 2), 0);
}

// The newest version changes before its digest is made, and so much that nothing leads back to it.
TEST_F(Copies, AreServedWhileVersionsComeFasterThanDigests) {
  constexpr std::uint64_t kMany = 20'000'000;  // five steps of the publisher's
  SmallModel changing(0, kMany), held(0, kMany);
  const SmallModel states[2] = {SmallModel(1, kMany), SmallModel(2, kMany)};
  publisher = open_publisher(changing);
  ASSERT_TRUE(publisher->publish(1).ok());
  held.step(7, 10);
  std::atomic<bool> ends = false;
  std::atomic<std::uint64_t> last = 1;
  std::thread trainer([&] {
    while (!ends) {
      ++last;
      changing.copy_from(states[last % 2]);
      changing.poke(0, static_cast<std::uint16_t>(last));
      ASSERT_TRUE(publisher->publish(last).ok());
    }
  });
  const auto replica = open_replica(held, publisher->address(), options);
  const bool came = replica->next(20).ok();
  ends = true;
  trainer.join();
  ASSERT_TRUE(came);
  (void)come_to(*replica, last);
  EXPECT_TRUE(held.is_same_as(changing));
}

TEST_F(Copies, OfWhichTooMuchIsDamagedAreReplaced) {
  copy.step(7, 10'000);
  const auto replica = open_replica(copy, publisher->address(), options);
  const Came came = come_to(*replica, 1);
  EXPECT_EQ(came.anchors, 1);
  EXPECT_EQ(came.damaged_blocks, 0U);
  EXPECT_TRUE(copy.is_same_as(source));
}

// It repairs another block than the forged one: the state hash is right before and after.
TEST(VouchedState, ARepairThatLeavesForgedBytesIsFound) {
  ASSERT_TRUE(forgery().is_found());
  SmallModel copy(1), source(1);
  forgery().prepare(source.first_block());
  copy.copy_from(source);
  forgery().apply(copy.first_block());
  ASSERT_EQ(copy.hash(), source.hash());
  RawPublisher publisher;
  const auto replica = open_replica(copy, publisher.address());
  Hello hello;
  RawPeer peer = publisher.accept(&hello);
  peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "a test", {}});
  peer.say(MessageType::kIdentity, identity_of(source.view(), 7, 1));
  ASSERT_EQ(peer.hear(), MessageType::kBlocks);
  const Result<BlockDigests> blocks = parse_block_digests(peer.link().content());
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ(blocks->of_blocks.size(), source.view().map->block_count());
  Commit commit;
  commit.model_id = kModelId;
  commit.epoch = 1;
  commit.version = 7;
  commit.schema_hash = hello.schema_hash;
  commit.base_hash = commit.target_hash = source.hash();
  UpdateMaker maker(source.view(), {source.view().readable(), nullptr}, {std::uint64_t{1} << 1},
                    commit);
  for (Result<bool> is_whole = false; !*is_whole;) {
    is_whole = maker.step();
    ASSERT_TRUE(is_whole.ok());
  }
  const std::shared_ptr<Update> made = maker.take();
  Recorded repair{{made->commit, {}}, Buffer::allocate(made->commit.stream_bytes)};
  std::ranges::copy(made->bytes.slice(0, repair.bytes.size()).bytes(), repair.bytes.data());
  repair.offer.commit = sealed(made->commit, repair.bytes.bytes());
  replay(peer, repair);
  Result<Subscriber::Swap> swap = replica->next(20);
  ASSERT_FALSE(swap.ok());
  EXPECT_NE(swap.status().message().find("have not led to version 7"), std::string::npos)
      << swap.status().message();
  EXPECT_EQ(replica->versions().held, 0U);
  // It comes again, and asks for all bytes.
  RawPeer again = publisher.accept(&hello);
  EXPECT_FALSE(hello.held_is_vouched || hello.tip_is_vouched);
  again.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "a test", {}});
  again.say(MessageType::kIdentity, identity_of(source.view(), 7, 1));
  ASSERT_EQ(again.hear(), MessageType::kNack);
  EXPECT_TRUE(parse_nack(again.link().content())->wants_anchor);
}

// And without the list of blocks, nobody's repair is taken.
TEST(VouchedState, ListsOfBlocksAreTakenOnlyOfThoseThatWereAskedAndWhole) {
  ASSERT_TRUE(forgery().is_found());
  SmallModel source;
  const auto publisher = open_publisher(source);
  ASSERT_TRUE(publisher->publish(1).ok());
  const std::uint64_t blocks = source.view().map->block_count();
  for (const std::uint64_t count : {blocks - 1, blocks + 1, std::uint64_t{0}}) {
    for (const bool is_asked : {false, true}) {
      RawPeer peer = RawPeer::connect(publisher->address());
      Hello hello = hello_of(source);
      hello.name += std::to_string(2 * count + (is_asked ? 1 : 0));  // one name would be backed off
      hello.held_is_vouched = hello.tip_is_vouched = !is_asked;
      peer.say(MessageType::kHello, hello);
      ASSERT_EQ(peer.hear(), MessageType::kWelcome);
      if (is_asked) {
        ASSERT_EQ(peer.hear(), MessageType::kIdentity);
      }
      peer.say(MessageType::kBlocks,
               BlockDigests{{1, source.hash()}, std::vector<Digest256>(is_asked ? count : blocks)});
      EXPECT_TRUE(peer.is_dropped()) << count << is_asked;
    }
  }
}

TEST(VouchedState, ADigestOfOtherBytesIsSaidToBeOne) {
  SmallModel copy(1), other(1);
  ASSERT_TRUE(forgery().is_found());
  forgery().prepare(copy.first_block());
  other.copy_from(copy);
  forgery().apply(other.first_block());
  RawPublisher publisher;
  const auto replica = open_replica(copy, publisher.address());
  RawPeer peer = publisher.accept();
  peer.say(MessageType::kWelcome, Welcome{kProtocolVersion, "m", 1, 1, 5000, "a test", {}});
  peer.say(MessageType::kIdentity, identity_of(other.view(), 7, 1));
  ASSERT_EQ(peer.hear(), MessageType::kBlocks);
  const Result<BlockDigests> blocks = parse_block_digests(peer.link().content());
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ(blocks->version.version, 7U);
}

}  // namespace
}  // namespace sparcl::replication
