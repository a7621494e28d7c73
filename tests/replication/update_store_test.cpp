// Which update brings a replica on.

#include "src/replication/update_store.hpp"

#include <gtest/gtest.h>

namespace sparcl::replication {
namespace {

HeldVersion state(std::uint64_t version) { return {version, {version, 7}}; }

std::shared_ptr<Update> update(std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
                               bool is_anchor = false) {
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
  for (std::uint64_t version = 2; version <= last; ++version)
    store.add(update(version - 1, version, bytes), label(version));
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
  for (std::uint64_t version = 4; version <= 6; ++version)
    store.add(update(version - 1, version, 100), label(version));
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
  EXPECT_EQ(store.step_from({100, {9, 9}}).update->commit.version,
            1U);  // of an earlier publisher's
  for (std::uint64_t version = 2; version <= 4; ++version)
    store.pass_on(update(version - 1, version, 10));
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

// A log of about so many bytes.
ChangeLogRef log_of(std::size_t bytes) {
  auto log = std::make_shared<codec::ChangeLog>();
  const std::vector<std::uint16_t> positions(bytes / 4);
  const std::vector<std::byte> values(bytes / 2);
  log->add(0, 2, positions, values);
  log->finish();
  return log;
}

// As publish(), with the rollback logs.
void publish_with_logs(UpdateStore& store, std::uint64_t last, std::uint64_t bytes,
                       std::size_t log_bytes = 8) {
  store.begin(label(1));
  for (std::uint64_t version = 2; version <= last; ++version) {
    store.add(update(version - 1, version, bytes), label(version), log_of(log_bytes));
  }
}

TEST(UpdateStore, LongWaysMayBeComposed) {
  UpdateStore store({64, 10000});
  publish_with_logs(store, 6, 100);
  EXPECT_TRUE(store.step_from(state(1)).may_be_composed);
  EXPECT_TRUE(store.step_from(state(3)).may_be_composed);
  EXPECT_FALSE(store.step_from(state(4)).may_be_composed);  // two updates
  EXPECT_EQ(store.rollback_logs(state(2)).size(), 4U);
  EXPECT_TRUE(store.rollback_logs({9, {9, 9}}).empty());

  UpdateStore small({64, 100000});
  publish_with_logs(small, 6, 100);
  EXPECT_FALSE(small.step_from(state(1)).may_be_composed);  // few bytes

  UpdateStore unknown({64, 10000});
  publish(unknown, 6, 100);
  EXPECT_FALSE(unknown.step_from(state(1)).may_be_composed);
  EXPECT_TRUE(unknown.rollback_logs(state(1)).empty());
}

TEST(UpdateStore, TheLeastOfChainComposedAndAnchorIsTaken) {
  UpdateStore store({64, 10000});
  publish_with_logs(store, 6, 100);
  store.keep_composed(state(1), update(1, 6, 300));
  EXPECT_EQ(store.step_from(state(1)).update->commit.version, 6U);
  EXPECT_FALSE(store.step_from(state(1)).may_be_composed);
  EXPECT_EQ(store.step_from(state(2)).update->commit.version, 3U);
  // Versions come after it: the chain leads on from its target.
  store.add(update(6, 7, 100), label(7), log_of(8));
  EXPECT_EQ(store.step_from(state(1)).update->commit.version, 6U);
  store.keep_anchor(update(0, 7, 350, true));
  EXPECT_TRUE(store.step_from(state(1)).update->commit.is_anchor);  // 350 < 300 + 100 < 600
  // None that is worth it: by the chain, and nobody tries again.
  store.keep_composed(state(3), nullptr);
  EXPECT_FALSE(store.step_from(state(3)).may_be_composed);
  EXPECT_TRUE(store.step_from(state(3)).update->commit.is_anchor);  // 350 < 400
  EXPECT_EQ(store.step_from(state(4)).update->commit.version, 5U);
  store.keep_composed(state(4), update(4, 7, 310));
  EXPECT_EQ(store.step_from(state(4)).update->commit.version, 5U);  // 300 by the chain
}

TEST(UpdateStore, WhatIsComposedGoesWithItsBase) {
  UpdateStore store({5, 10000});
  publish_with_logs(store, 6, 100);
  store.keep_composed(state(1), update(1, 6, 10));
  store.add(update(6, 7, 100), label(7), log_of(8));  // 1 to 2 is dropped
  EXPECT_TRUE(store.step_from(state(1)).needs_anchor);
  EXPECT_EQ(store.rollback_logs(state(2)).size(), 5U);
}

TEST(UpdateStore, RollbackLogsAndWhatIsComposedAreBounded) {
  UpdateStore store({64, 8000});
  publish_with_logs(store, 11, 200, 400);  // ten logs of 400 bytes and more; 2,000 are allowed
  EXPECT_TRUE(store.rollback_logs(state(1)).empty());
  EXPECT_FALSE(store.step_from(state(1)).may_be_composed);
  EXPECT_EQ(store.rollback_logs(state(8)).size(), 3U);
  EXPECT_TRUE(store.step_from(state(8)).may_be_composed);
  store.keep_composed(state(1), update(1, 11, 1500));
  store.keep_composed(state(2), update(2, 11, 1500));
  EXPECT_EQ(store.step_from(state(1)).update->commit.version, 2U);  // dropped for the second
  EXPECT_EQ(store.step_from(state(2)).update->commit.version, 11U);
}

// Whoever is still being sent an update that is kept no more keeps its bytes.
TEST(UpdateStore, AnUpdateThatIsStillSentCountsAsPeersMemory) {
  const auto budget = std::make_shared<PeerBudget>();
  UpdateStore store({2, 1000}, budget);
  publish(store, 2, 100);
  store.keep_anchor(update(0, 2, 700, true));
  UpdateRef sent = store.step_from(state(1)).update, anchor = store.step_by_anchor(0).update;
  ASSERT_TRUE(sent != nullptr && anchor != nullptr);
  EXPECT_EQ(budget->used(), 0U) << "all may need them";
  for (std::uint64_t version = 3; version <= 6; ++version)
    store.add(update(version - 1, version, 100), label(version));
  EXPECT_FALSE(store.keeps(sent) || store.keeps(anchor));
  EXPECT_EQ(budget->used(), 800U);
  sent = nullptr;
  EXPECT_EQ(budget->used(), 700U);
  anchor = nullptr;
  EXPECT_EQ(budget->used(), 0U);
}

}  // namespace
}  // namespace sparcl::replication
