// Which update brings a replica on.

#include "src/replication/update_store.hpp"

#include <gtest/gtest.h>

namespace sparcl::replication {
namespace {

HeldVersion state(std::uint64_t version) { return {version, {version, 7}}; }

std::shared_ptr<Update> update(std::uint64_t from, std::uint64_t to, std::uint64_t bytes, bool is_anchor = false) {
  auto made = std::make_shared<Update>();
  made->commit.base_version = from;
  made->commit.base_hash = state(from).hash;
  made->commit.version = to;
  made->commit.target_hash = state(to).hash;
  made->commit.stream_bytes = bytes;
  made->commit.is_anchor = is_anchor;
  return made;
}

UpdateRef label(std::uint64_t version) { return update(version, version, 0); }

// Versions 1 to `last`, each a delta of so many bytes.
void publish(UpdateStore& store, std::uint64_t last, std::uint64_t bytes) {
  store.begin(label(1));
  for (std::uint64_t version = 2; version <= last; ++version) store.add(update(version - 1, version, bytes), label(version));
}

TEST(UpdateStore, TheChainLeadsFromEachVersion) {
  UpdateStore store({64, 1000});
  publish(store, 5, 10);
  for (std::uint64_t version = 1; version < 5; ++version) {
    EXPECT_EQ(store.step_from(state(version)).update->commit.version, version + 1);
  }
  EXPECT_EQ(store.step_from(state(5)).update, nullptr);
  EXPECT_TRUE(store.step_from({0, {9, 9}}).needs_anchor);
}

TEST(UpdateStore, AnAnchorIsTakenWhereItIsLessThanTheChain) {
  UpdateStore store({64, 1000});
  publish(store, 5, 100);
  store.keep_anchor(update(0, 5, 250, true));
  EXPECT_TRUE(store.step_from(state(1)).update->commit.is_anchor);
  EXPECT_TRUE(store.step_from(state(2)).update->commit.is_anchor);
  EXPECT_FALSE(store.step_from(state(3)).update->commit.is_anchor);
}

// Neither one of a version that it holds, or is past, nor one that leaves as much to do.
TEST(UpdateStore, AnAnchorNeverLeadsBack) {
  UpdateStore store({64, 1000});
  publish(store, 3, 100);
  store.keep_anchor(update(0, 3, 10, true));
  for (std::uint64_t version = 4; version <= 6; ++version) store.add(update(version - 1, version, 100), label(version));
  for (std::uint64_t version = 3; version < 6; ++version) {
    ASSERT_NE(store.step_from(state(version)).update, nullptr);
    EXPECT_EQ(store.step_from(state(version)).update->commit.version, version + 1);
  }
  EXPECT_TRUE(store.step_from(state(1)).update->commit.is_anchor);
  // One that refuses what follows on 4 is not offered 3, but waits for one of 6.
  EXPECT_TRUE(store.step_by_anchor(4).needs_anchor);
  EXPECT_EQ(store.step_by_anchor(0).update->commit.version, 3U);
  EXPECT_FALSE(store.step_by_anchor(6).needs_anchor);
}

TEST(UpdateStore, AReplicaPassesOnWhatItHas) {
  UpdateStore store({2, 1000});
  store.pass_on(update(0, 1, 500, true));
  EXPECT_EQ(store.step_from({100, {9, 9}}).update->commit.version, 1U);  // of an earlier publisher's
  for (std::uint64_t version = 2; version <= 4; ++version) store.pass_on(update(version - 1, version, 10));
  EXPECT_EQ(store.step_from(state(3)).update->commit.version, 4U);
  EXPECT_EQ(store.step_from(state(5)).update, nullptr);  // it will come
  EXPECT_FALSE(store.step_from(state(5)).needs_anchor);
  EXPECT_EQ(store.updates(), 2U);
  store.pass_on(update(4, 5, 10));
  store.take_back(store.step_from(state(4)).update);
  EXPECT_EQ(store.step_from(state(4)).update, nullptr);
}

TEST(UpdateStore, AReplicaPassesLabelsOn) {
  UpdateStore store({16, 1000});
  store.pass_on(update(1, 2, 10));
  auto same = update(2, 3, 0);
  same->commit.target_hash = same->commit.base_hash;
  store.pass_on(same);
  const UpdateStore::Step step = store.step_from(state(2));
  ASSERT_NE(step.update, nullptr);
  EXPECT_EQ(step.update->commit.version, 3U);
  EXPECT_EQ(store.step_from({3, state(2).hash}).update, nullptr);
}

}  // namespace
}  // namespace sparcl::replication
