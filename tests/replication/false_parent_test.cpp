// Parents that send other bytes than the publisher has announced, or none: they are named, and
// nothing is lost by them.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/base/log.hpp"
#include "tests/replication/forged_state.hpp"
#include "tests/replication/lying_parent.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::TempFolder;

// All bytes of a version in several leaves, its publisher and a parent that a test plays, and a
// replica in between.
class FalseParents : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kElements = 1'800'000;  // 3.6 MB: 4 leaves
  void open(const std::string& key = "", const std::string& trust = "") {
    PublisherOptions options = local_options();
    options.key_path = key;
    const auto real = open_publisher(source, options);
    source.step(1, static_cast<int>(kElements));
    ASSERT_TRUE(real->publish(7).ok());
    update = record_update(*real, {0, copy.hash()}, copy.view().schema_hash);
    ASSERT_GE(leaf_count(update.bytes.size()), 3U);
    SubscriberOptions replica_is = replica_options();
    replica_is.trust_path = trust;
    replica = open_replica(copy, publisher_.address(), replica_is);
    word.emplace(publisher_.accept());
    word->say(MessageType::kWelcome, welcome());
  }
  Welcome welcome() const {
    return {kProtocolVersion, kModelId, update.offer.commit.epoch, 7, 5000, "a test", {}};
  }
  UpdateName name() const { return {0, 7}; }
  // It is told to take updates from a parent, which it comes to.
  RawPeer place(std::uint32_t number, bool is_announced = true) {
    word->say(MessageType::kParent,
              Parent{number, net::resolve(*net::parse_host_port(parent_.address()))->front(),
                     "a parent"});
    if (is_announced) word->say(MessageType::kAnnounce, update.offer);
    RawPeer child = parent_.accept();
    child.say(MessageType::kWelcome, welcome());
    return child;
  }
  Orphan hear_orphan() {
    std::optional<MessageType> said = word->hear();
    while (said == MessageType::kAck) said = word->hear();
    EXPECT_EQ(said, MessageType::kOrphan);
    return said == MessageType::kOrphan ? *parse_orphan(word->link().content()) : Orphan{};
  }
  // From there on, by the publisher.
  void expect_the_rest_from(std::uint64_t first_byte) {
    expect_the_rest_from(first_byte, first_byte > 0);
  }
  void expect_the_rest_from(std::uint64_t first_byte, bool has_leaves) {
    word->say(MessageType::kOffer, update.offer);
    const std::optional<Request> request = hear_request(*word);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->first_byte, first_byte);
    EXPECT_EQ(request->has_leaves, has_leaves);
    send_update(*word, update, *request);
    const Result<Subscriber::Swap> swap = replica->next(20);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_TRUE(copy.is_same_as(source));
  }
  Buffer leaf(std::size_t i) {
    return update.bytes.slice(
        i * kLeafBytes, std::min<std::size_t>(kLeafBytes, update.bytes.size() - i * kLeafBytes));
  }

  SmallModel source{99, kElements}, copy{1, kElements};
  Recorded update;
  std::unique_ptr<Subscriber> replica;
  std::optional<RawPeer> word;  // the publisher's connection

 private:
  RawPublisher publisher_, parent_;
};

void flush_all(RawPeer& peer) {
  for (int i = 0; i < 2000 && peer.link().queued_bytes() > 0 && peer.link().flush(); ++i)
    usleep(1000);
}

TEST_F(FalseParents, ABadLeafInTheMiddleCostsItselfAlone) {
  open();
  RawPeer child = place(1);
  child.say(MessageType::kOffer, update.offer);
  ASSERT_TRUE(hear_request(child));
  child.say(MessageType::kLeaves, Leaves{name(), 0, leaves_of(update.bytes.bytes())});
  child.link().queue_chunk({7, 0}, leaf(0));
  child.link().queue_chunk({7, kLeafBytes}, noise_of(kLeafBytes));
  flush_all(child);
  const Orphan orphan = hear_orphan();
  EXPECT_EQ(orphan.code, Code::kCorrupt) << orphan.text;
  EXPECT_NE(orphan.text.find("bytes 1048576 to 2097152 of version 7"), std::string::npos)
      << orphan.text;
  EXPECT_TRUE(child.is_dropped());
  expect_the_rest_from(kLeafBytes);
}

// Nobody wanted it when it began, and so its bytes have no place.
TEST_F(FalseParents, AChunkThatBeginsBeforeTheAnnouncementEndsTheConnection) {
  open();
  Offer offer = update.offer;
  const Buffer bytes = noise_of(1000);
  offer.commit = sealed(offer.commit, bytes.bytes());
  RawPeer child = place(1, false);
  child.say(MessageType::kOffer, offer);
  const auto head = serialise(ChunkHead{7, 0});
  const auto content_bytes = static_cast<std::uint32_t>(head.size() + bytes.size());
  child.send_bytes(serialise(
      MessageHead{MessageType::kChunk, content_bytes, crc32c(bytes.bytes(), crc32c(head))}));
  child.send_bytes(head);
  child.send_bytes(bytes.bytes().first(500));
  usleep(300'000);  // the replica has read these
  word->say(MessageType::kAnnounce, offer);
  ASSERT_TRUE(hear_request(child));
  child.send_bytes(bytes.bytes().last(500));
  EXPECT_EQ(hear_orphan().code, Code::kCorrupt);
  EXPECT_TRUE(child.is_dropped());
}

TEST_F(FalseParents, AnotherParentSendsTheRest) {
  open();
  {
    RawPeer child = place(1);
    child.say(MessageType::kOffer, update.offer);
    ASSERT_TRUE(hear_request(child));
    child.say(MessageType::kLeaves, Leaves{name(), 0, leaves_of(update.bytes.bytes())});
    child.link().queue_chunk({7, 0}, leaf(0));
    child.link().queue_chunk(
        {7, kLeafBytes}, leaf(1).slice(0, 1000));  // of which nobody knows yet whether it is right
    flush_all(child);
    for (int i = 0; i < 2000 && replica->incoming().received_bytes < kLeafBytes; ++i) usleep(1000);
  }
  EXPECT_EQ(hear_orphan().code, Code::kRemoteError);
  RawPeer child = place(2, false);
  child.say(MessageType::kOffer, update.offer);
  const std::optional<Request> request = hear_request(child);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->first_byte, kLeafBytes);
  EXPECT_TRUE(request->has_leaves);
  send_update(child, update, *request);
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_TRUE(copy.is_same_as(source));
}

TEST_F(FalseParents, FalseLeavesAreNotTaken) {
  open();
  RawPeer child = place(1);
  child.say(MessageType::kOffer, update.offer);
  ASSERT_TRUE(hear_request(child));
  child.say(MessageType::kLeaves,
            Leaves{name(), 0, leaves_of(noise_of(update.bytes.size()).bytes())});
  EXPECT_EQ(hear_orphan().code, Code::kCorrupt);
  EXPECT_TRUE(child.is_dropped());
  expect_the_rest_from(0);
}

TEST_F(FalseParents, NoByteIsTakenBeforeTheLeaves) {
  open();
  RawPeer child = place(1);
  child.say(MessageType::kOffer, update.offer);
  ASSERT_TRUE(hear_request(child));
  child.link().queue_chunk({7, 0}, leaf(0));
  flush_all(child);
  EXPECT_EQ(hear_orphan().code, Code::kCorrupt);
  expect_the_rest_from(0);
}

// The announced version, by a stream to other weights.
TEST_F(FalseParents, AnAnnouncedVersionByAnotherStreamIsNotAskedFor) {
  open();
  RawPeer child = place(1);
  Offer other = update.offer;
  other.commit = sealed(other.commit, noise_of(1000).bytes());
  child.say(MessageType::kOffer, other);
  for (int i = 0; i < 20; ++i) {  // both are alive
    child.say(MessageType::kAlive, Alive{7});
    word->say(MessageType::kAlive, Alive{7});
    usleep(50'000);
  }
  const Orphan orphan = hear_orphan();
  EXPECT_EQ(orphan.code, Code::kUnauthorized) << orphan.text;
  EXPECT_FALSE(hear_request(child));
  expect_the_rest_from(0);
}

TEST_F(FalseParents, ATrustedSignatureStandsForTheAnnouncement) {
  const TempFolder folder;
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok() && key->save(folder / "key").ok());
  open(folder / "key", folder / "key.pub");
  RawPeer child = place(1, false);
  child.say(MessageType::kOffer, update.offer);
  const std::optional<Request> request = hear_request(child);
  ASSERT_TRUE(request);
  send_update(child, update, *request);
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_TRUE(copy.is_same_as(source));
}

// Another life with the same key: its version 7 has the same state, and its signature is valid.
TEST_F(FalseParents, ASignedUpdateOfAnotherHistoryIsRefusedByName) {
  const TempFolder folder;
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok() && key->save(folder / "key").ok());
  open(folder / "key", folder / "key.pub");
  PublisherOptions options = local_options();
  options.key_path = folder / "key";
  const auto other_life = open_publisher(source, options);
  ASSERT_TRUE(other_life->publish(7).ok());
  const Recorded other = record_update(*other_life, {0, copy.hash()}, copy.view().schema_hash);
  ASSERT_EQ(other.offer.commit.target_hash, update.offer.commit.target_hash);
  ASSERT_NE(other.offer.commit.epoch, update.offer.commit.epoch);
  RawPeer child = place(1, false);
  child.say(MessageType::kOffer, other.offer);
  const Orphan orphan = hear_orphan();
  EXPECT_EQ(orphan.code, Code::kUnauthorized) << orphan.text;
  EXPECT_NE(orphan.text.find("version 7 is of another publisher"), std::string::npos)
      << orphan.text;
  EXPECT_FALSE(hear_request(child));
  expect_the_rest_from(0);
}

TEST_F(FalseParents, ARepairComesFromThePublisherAlone) {
  open();
  RawPeer child = place(1, false);
  Offer repair = update.offer;
  repair.commit.is_anchor = false;
  repair.commit.base_hash = copy.hash();
  word->say(MessageType::kAnnounce, repair);
  child.say(MessageType::kOffer, repair);
  EXPECT_EQ(hear_orphan().code, Code::kWrongBase);
  expect_the_rest_from(0);
}

TEST_F(FalseParents, OneThatIsCalledBackSaysWhatItWasGiven) {
  for (const bool gives : {false, true}) {
    SCOPED_TRACE(gives);
    open();
    RawPeer child = place(1);
    const double since = net::monotonic_seconds();
    child.say(MessageType::kOffer, update.offer);
    ASSERT_TRUE(hear_request(child));
    if (gives) child.say(MessageType::kLeaves, Leaves{name(), 0, leaves_of(update.bytes.bytes())});
    for (std::size_t at = 0; net::monotonic_seconds() - since < 1; at += 100) {
      child.say(MessageType::kAlive, Alive{7});
      if (gives && at < kLeafBytes) child.link().queue_chunk({7, at}, update.bytes.slice(at, 100));
      flush_all(child);
      usleep(50'000);
    }
    word->say(MessageType::kParent, Parent{2, {}, "back"});
    const Orphan orphan = hear_orphan();
    EXPECT_EQ(orphan.number, 2U);
    EXPECT_EQ(orphan.code, Code::kTimeout);
    EXPECT_NE(orphan.text.find(gives ? "gives slowly" : "gives nothing"), std::string::npos)
        << orphan.text;
    expect_the_rest_from(0, gives);
    replica = nullptr;
    copy.step(3);
  }
}

// --- among honest replicas ---

struct Case {
  Lie lie;
  int liars;
};
std::string name_of(const Case& each) {
  const char* lies[3] = {"Nothing", "Slowly", "Garbage"};
  return lies[static_cast<int>(each.lie)] + std::to_string(each.liars);
}
class LyingParents : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Lies, LyingParents,
                         ::testing::Values(Case{Lie::kGivesNothing, 1}, Case{Lie::kGivesNothing, 3},
                                           Case{Lie::kGivesSlowly, 2}, Case{Lie::kGivesGarbage, 1},
                                           Case{Lie::kGivesGarbage, 3}),
                         [](const auto& each) { return name_of(each.param); });

TEST_P(LyingParents, AreNamedAndEveryVersionComes) {
  SmallModel source;
  const auto publisher = open_publisher(source);
  std::uint64_t version = 1;
  ASSERT_TRUE(publisher->publish(version).ok());
  std::vector<std::unique_ptr<LyingParent>> liars;
  for (int i = 0; i < GetParam().liars; ++i) {  // they came first: others are placed with them
    liars.push_back(std::make_unique<LyingParent>(publisher->address(), source.view().schema_hash,
                                                  GetParam().lie, "liar " + std::to_string(i)));
  }
  const bool logs = log_enabled(LogLevel::kWarn);
  testing::internal::CaptureStderr();
  SmallModel copies[2];
  std::vector<std::unique_ptr<Subscriber>> replicas;
  SubscriberOptions options = replica_options();
  options.shares_memory = false;
  for (const SmallModel& copy : copies)
    replicas.push_back(open_replica(copy, publisher->address(), options));
  for (int round = 0; round < 4; ++round) {
    for (std::size_t r = 0; r < 2; ++r) {
      while (replicas[r]->versions().held < version) {
        const Result<Subscriber::Swap> swap = replicas[r]->next(20);
        ASSERT_TRUE(swap.ok()) << swap.status().message() << publisher->status();
      }
      EXPECT_TRUE(copies[r].is_same_as(source)) << r;
    }
    usleep(200'000);  // they are placed
    source.step(++version);
    ASSERT_TRUE(publisher->publish(version).ok());
  }
  const std::string log = testing::internal::GetCapturedStderr();
  int with_victims = 0, expelled = 0;
  for (const auto& each : liars) with_victims += each->victims() > 0 ? 1 : 0;
  const auto report = nlohmann::json::parse(publisher->status());
  for (const auto& each : report["replicas"]) {
    if (each["expelled"] != true) continue;
    ++expelled;
    const std::string name = each["name"];
    EXPECT_EQ(name.rfind("liar ", 0), 0U) << name;  // no other
    if (logs) {
      EXPECT_NE(log.find("replica " + name + " passes nothing on any more"), std::string::npos)
          << log;
    }
  }
  EXPECT_GE(with_victims, 1);
  EXPECT_GE(expelled, 1) << report.dump(1) << log;
}

}  // namespace
}  // namespace sparcl::replication
