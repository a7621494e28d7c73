// Stores through the C interface: versions that one state publishes come back in others.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/api/stored_model.hpp"

namespace {

namespace fs = std::filesystem;

using sparcl::test::StoredModel;

class StoreApi : public sparcl::test::StoreApiTest {};

TEST_F(StoreApi, EachVersionComesBackAndFollowersKeepUp) {
  StoredModel trained, follower;
  const sparclStore_t store = open(), reader = open();
  EXPECT_EQ(latest(store), 0u);
  for (std::uint64_t version = 1; version <= 10; ++version) {
    trained.train(version);
    ASSERT_EQ(sparclStorePublish(store, trained.state(), version), sparclSuccess) << error();
    EXPECT_EQ(latest(reader), version);
    if (version % 3 == 0) continue;  // some are passed over
    std::uint64_t got = 0;
    ASSERT_EQ(sparclStoreRestore(reader, follower.state(), 0, &got), sparclSuccess) << error();
    EXPECT_EQ(got, version);
    EXPECT_TRUE(follower == trained);
  }
  StoredModel late;
  ASSERT_EQ(sparclStoreRestore(reader, late.state(), 10, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(late == trained);
  follower.train(77);  // holds no version any more
  ASSERT_EQ(sparclStoreRestore(reader, follower.state(), 10, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(follower == trained);
  EXPECT_EQ(sparclStoreClose(reader), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
}

TEST_F(StoreApi, ARestartedProcessGoesOn) {
  StoredModel trained;
  sparclStore_t store = open();
  ASSERT_EQ(sparclStorePublish(store, trained.state(), 5), sparclSuccess) << error();
  EXPECT_EQ(sparclStorePublish(store, trained.state(), 5), sparclInvalidArgument);
  EXPECT_NE(error().find("sparclStorePublish: version 5 does not come after version 5"),
            std::string::npos)
      << error();
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
  trained.train(1);
  store = open();
  ASSERT_EQ(sparclStorePublish(store, trained.state(), 6), sparclSuccess) << error();
  StoredModel other;
  EXPECT_EQ(sparclStorePublish(store, other.state(), 7), sparclInvalidUsage);
  EXPECT_NE(error().find("publishes another state already"), std::string::npos) << error();
  ASSERT_EQ(sparclStoreRestore(store, other.state(), 0, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(other == trained);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
}

TEST_F(StoreApi, OfTwoPublishersOneIsStopped) {
  StoredModel one, two;
  const sparclStore_t first = open(), second = open();
  ASSERT_EQ(sparclStorePublish(first, one.state(), 1), sparclSuccess) << error();
  ASSERT_EQ(sparclStorePublish(second, two.state(), 2), sparclSuccess) << error();
  EXPECT_EQ(sparclStorePublish(first, one.state(), 3), sparclStale);
  EXPECT_NE(error().find("another writer has published version 2"), std::string::npos) << error();
  EXPECT_EQ(latest(first), 2u);
  EXPECT_EQ(sparclStoreClose(first), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(second), sparclSuccess);
}

// Wherever a publisher is killed, the last version is there, and the next process goes on.
TEST_F(StoreApi, AKilledPublisherLeavesTheLastVersion) {
  const sparclStore_t reader = open();
  std::uint64_t newest = 0;
  for (int round = 0; round < 6; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      StoredModel model;
      const sparclStore_t own = open();
      for (std::uint64_t version = newest + 1;; ++version) {
        model.set_to(version);
        if (sparclStorePublish(own, model.state(), version) == sparclSuccess) continue;
        std::fprintf(stderr, "version %d: %s\n", static_cast<int>(version), error().c_str());
        ::_exit(1);
      }
    }
    while (round == 0 && latest(reader) == 0) ::usleep(1000);
    ::usleep((40'000 + 13'000 * static_cast<useconds_t>(round)) *
             sparcl::test::slowness_of_server());
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the publisher ended by itself";
    (void)latest(reader);  // a record whose note is missing may be found by the next call only
    newest = latest(reader);
    StoredModel restored, expected;
    expected.set_to(newest);
    ASSERT_EQ(sparclStoreRestore(reader, restored.state(), newest, nullptr), sparclSuccess)
        << error();
    EXPECT_TRUE(restored == expected) << newest;
  }
  EXPECT_EQ(sparclStoreClose(reader), sparclSuccess);
}

TEST_F(StoreApi, AServerThatIgnoresConditionsNeedsSingleWriter) {
  if (!sparcl::test::is_over_s3()) GTEST_SKIP() << "only servers ignore conditions";
  url_ = sparcl::test::store_url(sparcl::test::StoreBody::kS3WithoutConditions, "");
  StoredModel model;
  sparclStore_t store = open();
  EXPECT_EQ(sparclStorePublish(store, model.state(), 1), sparclUnsupported);
  EXPECT_NE(error().find("single_writer"), std::string::npos) << error();
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
  store = open(1);
  EXPECT_EQ(sparclStorePublish(store, model.state(), 1), sparclSuccess) << error();
  EXPECT_EQ(latest(store), 1u);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
}

TEST_F(StoreApi, AChildOfForkOpensItsOwn) {
  StoredModel model;
  const sparclStore_t store = open();
  ASSERT_EQ(sparclStorePublish(store, model.state(), 1), sparclSuccess) << error();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::uint64_t version = 0;
    const bool is_refused = sparclStoreLatest(store, &version) == sparclInvalidUsage &&
                            sparclStorePublish(store, model.state(), 2) == sparclInvalidUsage;
    ::_exit(is_refused && sparclStoreClose(store) == sparclSuccess ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(sparclStorePublish(store, model.state(), 2), sparclSuccess) << error();
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
}

TEST_F(StoreApi, WhatIsWrongIsNamed) {
  sparclStore_t store = nullptr;
  EXPECT_EQ(sparclStoreOpen(nullptr, url().c_str(), nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclStoreOpen(&store, nullptr, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclStoreOpen(&store, "file:", nullptr), sparclInvalidArgument);
  sparclStoreOptions_t odd = SPARCL_STORE_OPTIONS_INITIALIZER;
  odd.single_writer = 2;
  EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &odd), sparclInvalidArgument);
  odd = SPARCL_STORE_OPTIONS_INITIALIZER;
  odd.chain = 3;
  EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &odd), sparclInvalidArgument);
  EXPECT_NE(error().find("options.chain = 3"), std::string::npos) << error();
  EXPECT_EQ(sparclStoreOpen(&store, "gopher://x", nullptr), sparclUnsupported);
  EXPECT_NE(
      error().find("sparclStoreOpen: 'gopher://x' is no address of a store: expected file:PATH"),
      std::string::npos)
      << error();
  EXPECT_EQ(sparclStoreClose(nullptr), sparclSuccess);
  store = open();
  StoredModel model, larger(300'000);
  EXPECT_EQ(sparclStoreLatest(store, nullptr), sparclInvalidArgument);
  if (url().starts_with("file:")) {  // a bucket is there
    EXPECT_EQ(sparclStoreVerify(store, nullptr, nullptr, nullptr), sparclSystemError);
    EXPECT_NE(error().find("A publisher makes the store"), std::string::npos) << error();
    EXPECT_EQ(sparclStoreCompact(store, nullptr), sparclSystemError);
  }
  EXPECT_EQ(sparclStoreRestore(store, model.state(), 0, nullptr), sparclInvalidArgument);
  EXPECT_NE(error().find("the store is empty"), std::string::npos) << error();
  EXPECT_EQ(sparclStorePublish(store, model.state(), 0), sparclInvalidArgument);
  StoredModel instead;  // the state that could not be published was given back
  EXPECT_EQ(sparclStorePublish(store, instead.state(), 0), sparclInvalidArgument);
  EXPECT_EQ(sparclStorePublish(store, nullptr, 1), sparclInvalidArgument);
  ASSERT_EQ(sparclStorePublish(store, model.state(), 3), sparclSuccess) << error();
  EXPECT_EQ(sparclStoreRestore(store, model.state(), 0, nullptr), sparclInvalidUsage) << error();
  EXPECT_EQ(sparclStoreRestore(store, larger.state(), 0, nullptr), sparclMismatch) << error();
  StoredModel reader;
  EXPECT_EQ(sparclStoreRestore(store, reader.state(), 2, nullptr), sparclInvalidArgument);
  EXPECT_NE(error().find("the store has no version 2, or has it no more: its newest is 3"),
            std::string::npos)
      << error();
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
  if (sparcl::test::is_over_s3()) return;
  store = open();
  for (const auto& entry : fs::directory_iterator(folder_ + "/a/store/anchors"))
    fs::resize_file(entry.path(), 100);
  reader.train(9);
  StoredModel same;
  same.train(9);
  EXPECT_EQ(sparclStoreRestore(store, reader.state(), 0, nullptr), sparclCorrupt);
  EXPECT_NE(error().find("/anchors/"), std::string::npos) << error();
  EXPECT_TRUE(reader == same);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(store), sparclInvalidUsage) << "it is closed";
}

struct Listed {
  std::vector<std::uint64_t> versions, anchors;
};

void note_version(const sparclStoreVersion_t* version, void* arg) {
  auto* const listed = static_cast<Listed*>(arg);
  listed->versions.push_back(version->version);
  if (version->anchor_bytes > 0) listed->anchors.push_back(version->version);
}

void count_damage(const char* location, const char* what, int is_repaired, void* arg) {
  EXPECT_FALSE(std::string(location).empty() || std::string(what).empty());
  static_cast<int*>(arg)[is_repaired] += 1;
}

TEST_F(StoreApi, ListsVerifiesPrunesCompactsAndCopies) {
  StoredModel trained, follower;
  const sparclStore_t store = open();
  for (std::uint64_t version = 1; version <= 18; ++version) {
    trained.train(version);
    ASSERT_EQ(sparclStorePublish(store, trained.state(), version), sparclSuccess) << error();
  }
  ASSERT_EQ(sparclStoreClose(store), sparclSuccess);  // waits for anchors and skips
  sparclStoreOptions_t options = SPARCL_STORE_OPTIONS_INITIALIZER;
  options.lease_seconds = 1;
  sparclStore_t own = nullptr, copy = nullptr;
  const std::string copied_to = "file:" + folder_ + "/copy";
  ASSERT_EQ(sparclStoreOpen(&own, url().c_str(), &options), sparclSuccess) << error();
  ASSERT_EQ(sparclStoreOpen(&copy, copied_to.c_str(), nullptr), sparclSuccess) << error();
  Listed listed;
  ASSERT_EQ(sparclStoreList(own, note_version, &listed), sparclSuccess) << error();
  EXPECT_EQ(listed.versions.size(), 18u);
  EXPECT_EQ(listed.anchors, (std::vector<std::uint64_t>{1, 5, 9, 13, 17}));
  std::uint64_t count = 0;
  ASSERT_EQ(sparclStoreCompact(own, &count), sparclSuccess) << error();
  EXPECT_EQ(count, 1u) << "an anchor of the newest version";
  ASSERT_EQ(sparclStoreCopy(own, copy, &count), sparclSuccess) << error();
  EXPECT_EQ(count, 18u);

  if (!sparcl::test::is_over_s3()) {
    for (const auto& entry : fs::directory_iterator(folder_ + "/a/store/deltas"))
      fs::resize_file(entry.path(), 10);
    int damage[2] = {0, 0};
    EXPECT_EQ(sparclStoreVerify(own, nullptr, count_damage, damage), sparclCorrupt);
    EXPECT_NE(error().find("17 are missing or damaged"), std::string::npos) << error();
    EXPECT_EQ(damage[0], 17);
    EXPECT_EQ(sparclStoreVerify(own, copy, count_damage, damage), sparclSuccess) << error();
    EXPECT_EQ(damage[1], 17);
  }
  EXPECT_EQ(sparclStoreVerify(own, nullptr, nullptr, nullptr), sparclSuccess) << error();

  // A reader's lease keeps what it needs: the first call only says what is to go.
  ASSERT_EQ(sparclStoreRestore(copy, follower.state(), 6, nullptr), sparclSuccess) << error();
  sparclStoreKeep_t keep = SPARCL_STORE_KEEP_INITIALIZER;
  sparclStorePruned_t pruned = SPARCL_STORE_PRUNED_INITIALIZER;
  EXPECT_EQ(sparclStorePrune(own, &keep, &pruned), sparclInvalidArgument);
  keep.versions = 2;
  ASSERT_EQ(sparclStorePrune(own, &keep, &pruned), sparclSuccess) << error();
  EXPECT_EQ(pruned.versions, 0u);
  EXPECT_EQ(pruned.waiting, 16u);
  ::sleep(2);
  ASSERT_EQ(sparclStorePrune(own, &keep, &pruned), sparclSuccess) << error();
  EXPECT_EQ(pruned.versions, 16u);
  EXPECT_EQ(pruned.waiting, 0u);
  ASSERT_EQ(sparclStoreRestore(own, follower.state(), 0, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(follower == trained);
  EXPECT_EQ(sparclStoreVerify(own, own, nullptr, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclStoreCopy(own, nullptr, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclStoreList(own, nullptr, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclStoreClose(own), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(copy), sparclSuccess);
}

// A publisher that keeps few versions, and a reader that is late.
TEST_F(StoreApi, APublisherKeepsAsManyVersionsAsItIsTold) {
  StoredModel trained, follower;
  sparclStoreOptions_t options = SPARCL_STORE_OPTIONS_INITIALIZER;
  options.anchor_every = 2;
  options.keep_versions = 3;
  options.lease_seconds = 1;
  sparclStore_t store = nullptr;
  ASSERT_EQ(sparclStoreOpen(&store, url().c_str(), &options), sparclSuccess) << error();
  const sparclStore_t reader = open();
  std::uint64_t version = 1;
  for (; version <= 8; ++version) {
    trained.train(version);
    ASSERT_EQ(sparclStorePublish(store, trained.state(), version), sparclSuccess) << error();
    if (version > 1) continue;
    ASSERT_EQ(sparclStoreRestore(reader, follower.state(), 0, nullptr), sparclSuccess) << error();
  }
  ::sleep(3);  // the lease of `reader` is of 600 s; to the publisher it is too old after 1 s
  for (; version <= 12; ++version) {
    trained.train(version);
    ASSERT_EQ(sparclStorePublish(store, trained.state(), version), sparclSuccess) << error();
  }
  ASSERT_EQ(sparclStoreClose(store), sparclSuccess) << error();
  Listed listed;
  ASSERT_EQ(sparclStoreList(reader, note_version, &listed), sparclSuccess) << error();
  EXPECT_LE(listed.versions.size(), 5u);
  EXPECT_EQ(listed.versions.back(), 12u);
  if (!sparcl::test::is_over_s3()) {
    EXPECT_LT(std::distance(fs::directory_iterator(folder_ + "/a/store/commits"), {}), 10);
  }
  ASSERT_EQ(sparclStoreRestore(reader, follower.state(), 0, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(follower == trained);
  EXPECT_EQ(sparclStoreRestore(reader, follower.state(), 2, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclStoreClose(reader), sparclSuccess);
}

}  // namespace
