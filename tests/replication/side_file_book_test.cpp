// The files beside the shards: what a session tells of them, what a replica takes, and both over a
// connection.

#include "src/replication/side_file_book.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/replication/driven_replica.hpp"
#include "tests/replication/driven_session.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using testing::HasSubstr;

using Files = std::vector<model::SideFile>;

model::SideFile file(const std::string& name, std::string_view content) {
  const auto bytes = std::as_bytes(std::span(content));
  return {name, {bytes.begin(), bytes.end()}};
}
Files some_files(std::string_view config) {
  return {file("config.json", config), file("tokenizer.json", "words")};
}
Digest256 digest(const Files& files) { return *model::digest_of(files); }

SideFileSet set_of(const Files& files, std::uint64_t since, bool with_files = true) {
  SideFileSet set{kDrivenReplicaModel, kDrivenEpoch, since, digest(files), {}, {}};
  if (!with_files) return set;
  set.files.emplace();
  for (const model::SideFile& each : files) set.files->push_back(*model::pack(each));
  return set;
}
std::string content_of(const std::optional<SideFileBook::Entry>& entry) {
  if (!entry || entry->files == nullptr) return "none";
  const std::vector<std::byte>& bytes = entry->files->front().content;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SideFileBook, EachVersionHasTheFilesThatCameWithItOrBefore) {
  SideFileBook book{Digest256{}};
  EXPECT_FALSE(book.of(7));
  ASSERT_TRUE(book.on_answer(set_of(some_files("five"), 5)).ok());
  EXPECT_EQ(content_of(book.of(4)), "five") << "there is nothing earlier";
  ASSERT_TRUE(book.on_answer(set_of(some_files("seven"), 7)).ok());
  EXPECT_EQ(content_of(book.of(6)), "five");
  EXPECT_EQ(content_of(book.of(7)), "seven");
  EXPECT_EQ(content_of(book.of(99)), "seven");
  EXPECT_EQ(book.known(), digest(some_files("seven")));
  // Another life of the publisher begins with other numbers.
  book.on_welcome(true);
  EXPECT_FALSE(book.is_answered());
  ASSERT_TRUE(book.on_answer(set_of(some_files("seven"), 1, false)).ok());
  EXPECT_TRUE(book.is_answered());
  EXPECT_EQ(content_of(book.of(1)), "seven");
}

TEST(SideFileBook, FilesThatTheReplicaCameWithNeedNotTravel) {
  const Files files = some_files("old");
  SideFileBook book{digest(files)};
  ASSERT_TRUE(book.on_answer(set_of(files, 3, false)).ok());
  EXPECT_EQ(book.of(3)->digest, digest(files));
  EXPECT_EQ(book.of(3)->files, nullptr);
  EXPECT_EQ(book.on_answer(set_of(some_files("new"), 4, false)).code(), Code::kCorrupt);
}

TEST(SideFileBook, FilesWithAnotherDigestOrDamageAreRefused) {
  SideFileBook book{Digest256{}};
  SideFileSet other = set_of(some_files("a"), 1);
  other.digest = digest(some_files("b"));
  EXPECT_EQ(book.on_answer(other).code(), Code::kCorrupt);
  SideFileSet damaged = set_of(some_files("a"), 1);
  damaged.files->front().packed.back() ^= std::byte{1};
  EXPECT_EQ(book.on_answer(damaged).code(), Code::kCorrupt);
  EXPECT_FALSE(book.of(1));
}

TEST(SideFiles, ASessionTellsThemOnceAndWhenTheyChange) {
  DrivenSession session;
  session.context.side_files = DrivenSession::files_of(some_files("one"), 1);
  session.become_idle();
  const std::vector<std::byte> none(32);
  EXPECT_EQ(session.hear(MessageType::kSideWanted, none), MessageTypes{MessageType::kSideFiles});
  EXPECT_TRUE(parse_side_file_set(session.last_whole)->files);
  session.machine->on_sent(session.said_bytes, session.now);
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), MessageTypes{});
  // Before the version that they came with.
  session.context.side_files = DrivenSession::files_of(some_files("three"), 3);
  session.store.add(update_of(2, 3, 1000), update_of(3, 3, 0));
  session.machine->on_news(session.now);
  session.machine->serve(session.now);
  EXPECT_EQ(session.said(), (MessageTypes{MessageType::kSideFiles, MessageType::kOffer}));
  EXPECT_EQ(parse_side_file_set(session.last_whole)->since, 3U);
  // While they are not sent, another set waits; the one that is sent counts for this replica.
  const std::uint64_t before = session.machine->own_bytes();
  session.context.side_files = DrivenSession::files_of(some_files("four"), 4);
  session.machine->on_news(session.now);
  EXPECT_EQ(session.said(), MessageTypes{});
  EXPECT_GT(session.machine->own_bytes(), before);
  EXPECT_EQ(session.hear(MessageType::kSideWanted, none), MessageTypes{MessageType::kRefusal})
      << "twice";
}

TEST(SideFiles, AReplicaThatHasThemIsSentTheirDigest) {
  DrivenSession session;
  const Files files = some_files("one");
  session.context.side_files = DrivenSession::files_of(files, 1);
  session.become_idle();
  const Digest256 known = digest(files);
  EXPECT_EQ(session.hear(MessageType::kSideWanted, {known.begin(), known.end()}),
            MessageTypes{MessageType::kSideFiles});
  EXPECT_FALSE(parse_side_file_set(session.last_whole)->files);
}

TEST(SideFiles, AReplicaAsksForThemAndTakesNoForeignOnes) {
  DrivenReplica replica(false, 0, Digest256{});
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  EXPECT_EQ(replica.said(), (ReplicaSaid{{kPublisher, MessageType::kSideWanted}}));
  SideFileSet set = set_of(some_files("a"), 2);
  set.epoch = kDrivenEpoch - 1;
  EXPECT_EQ(replica.hear(kPublisher, MessageType::kSideFiles, set).code(), Code::kMismatch);
  set = set_of(some_files("a"), 2);
  set.model_id = "other";
  EXPECT_EQ(replica.hear(kPublisher, MessageType::kSideFiles, set).code(), Code::kMismatch);
  set = set_of(some_files("a"), 2);
  EXPECT_FALSE(replica.hear(kParent, MessageType::kSideFiles, set).ok()) << "a parent gives none";
  ASSERT_TRUE(replica.hear(kPublisher, MessageType::kSideFiles, set).ok());
  EXPECT_EQ(content_of(replica.machine->side_files().of(2)), "a");
  DrivenReplica without;
  ASSERT_TRUE(without.welcome(kPublisher).ok());
  EXPECT_EQ(without.said(), ReplicaSaid{});
  EXPECT_FALSE(without.hear(kPublisher, MessageType::kSideFiles, set).ok());
}

// By keys: the set is signed, and a signature of another set does not count.
TEST(SideFiles, WithTrustedKeysASetMustBeSigned) {
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok());
  SmallModel model, held;
  const test::TempFolder folder;
  ASSERT_TRUE(key->save(folder / "key").ok());
  std::ofstream(folder / "key.pub") << trust::public_key_line(key->public_key()) << "\n";
  PublisherOptions options = local_options();
  options.key_path = folder / "key";
  const auto publisher = open_publisher(model, options);
  const Files files = some_files("signed");
  ASSERT_TRUE(publisher->set_side_files(files).ok());
  ASSERT_TRUE(publisher->publish(1).ok());
  SubscriberOptions trusting = replica_options();
  trusting.trust_path = folder / "key.pub";
  trusting.side_files.emplace();
  const auto replica = open_replica(held, publisher->address(), trusting);
  ASSERT_TRUE(replica->next(20).ok());
  const auto view = [&] { return replica->side_files(1); };
  for (int i = 0; i < 2000 && !view().is_settled; ++i) (void)replica->next(0.01);
  ASSERT_TRUE(view().is_settled && view().entry);
  EXPECT_EQ(content_of(view().entry), "signed");
  // Of a new version without new weights.
  ASSERT_TRUE(publisher->set_side_files(some_files("next")).ok());
  ASSERT_TRUE(publisher->publish(2).ok());
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(content_of(replica->side_files(2).entry), "next") << "they come before their version";
  EXPECT_EQ(content_of(replica->side_files(1).entry), "signed");
}

TEST(SideFiles, TrustedKeysSignModelEpochVersionAndDigest) {
  const Result<trust::SigningKey> key = trust::SigningKey::generate();
  ASSERT_TRUE(key.ok());
  DrivenReplica replica(false, 0, Digest256{},
                        trust::TrustedKeys::of_secret(key->public_key(), "a secret"));
  ASSERT_TRUE(replica.welcome(kPublisher).ok());
  SideFileSet set = set_of(some_files("a"), 2);
  const auto hear = [&] { return replica.hear(kPublisher, MessageType::kSideFiles, set).code(); };
  EXPECT_EQ(hear(), Code::kUnauthorized) << "it is not signed";
  set.signatures.push_back({key->public_key(), key->sign(signed_bytes(set))});
  ++set.since;
  EXPECT_EQ(hear(), Code::kUnauthorized);
  --set.since;
  EXPECT_EQ(hear(), Code::kSuccess);
}

}  // namespace
}  // namespace sparcl::replication
