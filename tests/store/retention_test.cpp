// Old versions go, what readers need stays, and whoever is killed leaves a whole chain.

#include "src/store/retention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "src/store/compaction.hpp"
#include "src/store/pruned_marks.hpp"
#include "src/store/store_content.hpp"
#include "tests/store/chain_support.hpp"

namespace sparcl::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void make_old(const std::string& path) {
  const struct utimbuf old { 1'000'000'000, 1'000'000'000 };
  ASSERT_EQ(::utime(path.c_str(), &old), 0);
}

class Retention : public ChainOfVersions {
 protected:
  void expect_whole(Chain& of) {
    const Result<VerifyReport> report = verify_content(of, nullptr, [](const Damage& each) {
      ADD_FAILURE() << each.location << ": " << each.what;
    });
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_GT(report->versions, 0U);
  }
  void expect_newest() {
    HeldTensors held(kTensors);
    const Status status = bring(held, **chain.newest());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(content(held) == contents.back());
  }
};

TEST_F(Retention, RemovesOnceItHasSaidSoForTheTimeOfALease) {
  publish_all(14);  // anchors: 1, 5, 9, 13
  Keep keep{.versions = 3, .lease_s = 2};
  Result<PruneReport> first = prune(chain, keep);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->objects, 0U);
  EXPECT_EQ(first->waiting, 8U) << "the first of the newest 3 is 12, and its anchor is 9";
  EXPECT_EQ(*chain.oldest(), 9U);
  expect_whole(chain);
  ::sleep(3);
  const Result<PruneReport> second = prune(chain, keep);
  EXPECT_EQ(second->versions, 8U);
  EXPECT_EQ(second->waiting, 0U);
  EXPECT_EQ(keys("commits").size(), 6U);
  expect_whole(chain);
  expect_newest();
  // Each version that is left comes back, and those before are refused by name.
  for (std::uint64_t number = 9; number <= 14; ++number) {
    HeldTensors held(kTensors);
    const Status status = bring(held, *chain.record(number));
    ASSERT_TRUE(status.ok()) << number << ": " << status.message();
    EXPECT_TRUE(content(held) == contents[number - 1]) << number;
  }
  EXPECT_FALSE(chain.find(versions[7].version, **chain.newest())->has_value());
  EXPECT_TRUE(chain.find(versions[8].version, **chain.newest())->has_value());
  // A writer and new readers go on.
  const auto next = writer(*store);
  trained.change(77, 100);
  publish(*next, 1000);
  expect_newest();
}

TEST_F(Retention, KeepsWhatALeaseNeeds) {
  publish_all(14);
  const Keep keep{.versions = 1, .lease_s = 600};
  const Keep at_once{.versions = 1, .lease_s = 0};
  Lease lease(*store);
  EXPECT_TRUE(*lease.hold(6));
  EXPECT_FALSE(*lease.hold(7)) << "it is young, and needs less";
  EXPECT_TRUE(*lease.hold(3)) << "it needs more";
  EXPECT_EQ((**first_leased(*store, ::time(nullptr), 600)).number, 3U);
  EXPECT_EQ(prune(chain, keep)->versions, 0U);
  // As if the mark were old.
  ASSERT_TRUE(write_pruned(*store, {{{13, ::time(nullptr) - 1000}}}).ok());
  EXPECT_EQ(prune(chain, keep)->versions, 2U);
  HeldTensors held(kTensors);
  set_to(held, 2);
  const Status status = bring(held, **chain.newest(), versions[2]);
  ASSERT_TRUE(status.ok()) << status.message();
  lease.release();
  EXPECT_EQ(keys("leases").size(), 0U);
  EXPECT_EQ(prune(chain, at_once)->versions, 10U);
  expect_newest();
}

TEST_F(Retention, ByBytesAndAge) {
  publish_all(14);
  EXPECT_EQ(prune(chain, {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(prune(chain, {.age_s = 3600, .lease_s = 0})->versions, 0U) << "all are young";
  std::uint64_t bytes = 0;
  for (const char* prefix : {"deltas", "skips", "anchors"}) {
    ASSERT_TRUE(store
                    ->list(prefix,
                           [&](const ObjectInfo& each) {
                             bytes += each.bytes;
                             return true;
                           })
                    .ok());
  }
  EXPECT_EQ(prune(chain, {.max_bytes = bytes, .lease_s = 0})->versions, 0U);
  EXPECT_EQ(prune(chain, {.max_bytes = bytes - 1, .lease_s = 0})->versions, 4U);
  EXPECT_EQ(prune(chain, {.max_bytes = 1, .lease_s = 0})->versions, 8U);
  expect_newest();
  expect_whole(chain);
}

TEST_F(Retention, RemovesWhatKilledWritersLeft) {
  publish_all(10);
  const std::string unfinished = folder / "store/deltas/.new-0123";
  const std::string other = store->location_of("deltas/00000000000000000004-0-x-1.sparcl");
  const std::string first = store->location_of("anchors/00000000000000000001-0-x-1.sparcl");
  const std::string later = store->location_of("deltas/00000000000000000011-10-x-1.sparcl");
  const std::string index = store->location_of("anchors/00000000000000000003-0-x-1.sparcl.index");
  const std::string user = folder / "store/.mine";
  for (const std::string& path : {unfinished, other, first, later, index, user}) {
    std::ofstream(path) << "bytes";
    const struct utimbuf old { 1'000'000'000, 1'000'000'000 };
    ASSERT_EQ(::utime(path.c_str(), &old), 0);
  }
  const std::size_t before = keys().size();
  const Result<PruneReport> report = prune(chain, {.versions = 100});
  EXPECT_EQ(report->objects, 4U);
  EXPECT_EQ(report->versions, 0U);
  for (const std::string& path : {unfinished, other, first, index})
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
  EXPECT_TRUE(std::filesystem::exists(later)) << "its record may still come";
  EXPECT_TRUE(std::filesystem::exists(user));
  EXPECT_EQ(keys().size(), before - 2);  // three less, and the clock
  expect_whole(chain);
}

TEST_F(Retention, ALateReaderTakesFewObjects) {
  options.anchor_every = 1000;
  {
    const auto by = writer(*store);
    trained.change(1, 1);  // deltas are small beside the anchor
    for (std::uint64_t version = 1; version <= 140; ++version) {
      trained.change(version, 20000);
      publish(*by, version);
    }
  }
  const auto steps = [&](std::size_t from, std::uint64_t to) {
    const VersionRecord target = *chain.record(to);
    const auto found = steps_to(chain, target, {.held = versions[from - 1]});
    HeldTensors held(kTensors);
    set_to(held, from - 1);
    const Status status = bring(held, target, versions[from - 1]);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(content(held) == contents[to - 1]) << from << " to " << to;
    return found->size();
  };
  EXPECT_EQ(steps(8, 72), 1U);
  EXPECT_EQ(steps(16, 80), 1U);
  EXPECT_EQ(steps(64, 128), 1U);
  EXPECT_LE(steps(3, 67), 16U);
  EXPECT_LE(steps(61, 125), 16U);
  EXPECT_EQ(steps(139, 140), 1U);
  EXPECT_EQ(steps(1, 140), 7U + 1 + 1 + 4) << "to 8 by deltas, to 72, to 136, to 140 by deltas";
}

// A writer that stood still while another one went on and pruned.
TEST_F(Retention, AWriterWhoseNumberWasPrunedIsStopped) {
  publish_all(6);
  const auto slow = writer(*store);
  {
    const auto other = writer(*store);
    for (std::uint64_t version = 100; version < 110; ++version) {
      trained.change(version, 1000);
      publish(*other, version);
    }
  }
  ASSERT_EQ(prune(chain, {.versions = 1, .lease_s = 0})->versions, 12U);
  trained.change(7, 1000);
  const Status late = slow->publish(1000);
  EXPECT_EQ(late.code(), Code::kStale) << late.message();
  chain.forget();
  EXPECT_EQ((*chain.newest())->version, 109U);
  expect_whole(chain);
  HeldTensors held(kTensors);
  ASSERT_TRUE(bring(held, **chain.newest()).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(Retention, PruningNeverGoesUpToADamagedAnchor) {
  publish_all(14);  // anchors: 1, 5, 9, 13
  std::filesystem::resize_file(store->location_of((*chain.shortcut(13, 0))->object.key), 100);
  ASSERT_TRUE(store->remove(shortcut_key(9, 0)).ok());
  EXPECT_EQ(prune(chain, {.versions = 1, .lease_s = 0})->versions, 4U);
  const VersionRecord newest = **chain.newest();
  HeldTensors held(kTensors);
  ASSERT_TRUE(restore_in_place(chain, newest, state_of(held)).ok()) << "from anchor 5";
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(Retention, VerifyNamesAChainThatNoReaderCanBegin) {
  publish_all(7);  // anchors: 1, 5
  ASSERT_TRUE(prune(chain, {.versions = 1, .lease_s = 0}).ok());
  ASSERT_TRUE(store->remove(shortcut_key(5, 0)).ok());
  std::vector<std::string> damage;
  const auto report =
      verify_content(chain, nullptr, [&](const Damage& each) { damage.push_back(each.what); });
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(damage, ElementsAre(HasSubstr("record 6 names it"),
                                  HasSubstr("no reader can begin with it")));
}

// Skips that a writer could not make, because it was another process.
TEST_F(Retention, CompactionAddsTheSkipsThatAreMissing) {
  for (int life = 0; life < 7; ++life) {
    const auto by = writer(*store);
    for (int i = 0; i < 4; ++i) {
      trained.change(static_cast<std::uint64_t>(10 * life + i), 3000);
      publish(*by, versions.size() + 1);
    }
  }
  for (const std::string& key : keys("skips")) ADD_FAILURE() << key;
  const VersionRecord newest = **chain.newest();
  const Result<std::uint64_t> added = compact(chain, kernels::cpu_kernels());
  ASSERT_TRUE(added.ok()) << added.status().message();
  EXPECT_EQ(keys("skips").size(), 2U) << "8 to 16, 16 to 24";
  EXPECT_EQ(*compact(chain, kernels::cpu_kernels()), 0U);
  expect_whole(chain);
  const auto steps = steps_to(chain, newest, {.held = versions[7]});
  EXPECT_LE(steps->size(), 2U + 4);
  EXPECT_TRUE(chain.shortcut(newest.number, 0)->has_value());
  HeldTensors held(kTensors);
  set_to(held, 7);
  ASSERT_TRUE(bring(held, newest, versions[7]).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(Retention, ACopyIsTheSameAndRepairs) {
  publish_all(11);
  ASSERT_TRUE(prune(chain, {.versions = 4, .lease_s = 0}).ok());
  const auto objects = std::move(*DirectoryStore::open(folder / "copy"));
  Chain copy(*objects);
  EXPECT_EQ(*copy_content(chain, copy), 7U) << "from the anchor of record 5";
  EXPECT_EQ(*copy_content(chain, copy), 0U);
  expect_whole(copy);
  HeldTensors held(kTensors);
  const VersionRecord newest = **copy.newest();
  const auto steps = steps_to(copy, newest, {});
  ASSERT_TRUE(restore(copy, newest, *steps, std::nullopt, state_of(held)).ok());
  EXPECT_TRUE(content(held) == contents.back());

  // Every object that is read, damaged: named without a copy, and repaired from it.
  std::size_t damaged = 0;
  for (const char* prefix : {"commits", "shortcuts", "deltas", "skips", "anchors", "schemas"}) {
    for (const std::string& key : keys(prefix)) {
      ++damaged;
      if (damaged % 3 == 0) {
        ASSERT_TRUE(store->remove(key).ok());
        continue;
      }
      std::fstream file(store->location_of(key), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(9);
      file.put('\x7f');
    }
  }
  std::size_t found = 0;
  ASSERT_TRUE(verify_content(chain, nullptr, [&](const Damage& each) {
                EXPECT_FALSE(each.is_repaired);
                ++found;
              }).ok());
  EXPECT_GE(found, 3U);
  Result<VerifyReport> report = verify_content(chain, &copy, [&](const Damage& each) {
    EXPECT_TRUE(each.is_repaired) << each.location << ": " << each.what;
  });
  ASSERT_TRUE(report.ok()) << report.status().message();
  // What names a missing object may have been missing, too: a copy brings back the rest.
  expect_whole(chain);
  chain.forget();
  expect_newest();

  const auto other = std::move(*DirectoryStore::open(folder / "other"));
  Chain elsewhere(*other);
  ASSERT_TRUE(ChainWriter::open(*other, state_of(trained), options).value()->publish(1).ok());
  EXPECT_EQ(copy_content(chain, elsewhere).status().code(), Code::kStale);
}

// Killed at any point of publishing, pruning, compacting and copying: all goes on.
TEST_F(Retention, WhoeverIsKilledLeavesAWholeChain) {
  std::mt19937 random(5);
  std::uint64_t least = 0;
  const int rounds = std::getenv("SPARCL_TEST_LONG") != nullptr ? 1000 : 16;
  const auto copied = std::move(*DirectoryStore::open(folder / "copy"));
  const auto train = [&](std::uint64_t version) {
    trained.change(version, 1000);
    std::memcpy(trained.tensor(3).data(), &version, sizeof version);
  };
  train(1);
  publish(*writer(*store), 1);  // on a busy machine all others may be killed before they publish
  for (int round = 0; round < rounds; ++round) {
    const int what = round % 4;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      chain.forget();
      std::unique_ptr<ChainWriter> by;
      if (what == 0) by = writer(*store);
      Chain copy(*copied);
      for (std::uint64_t i = 0;; ++i) {
        bool is_ok = true;
        if (what == 0) {
          const std::uint64_t version = by->newest() ? by->newest()->version + 1 : 1;
          train(version);
          is_ok = by->publish(version).ok();
        }
        if (what == 1) is_ok = prune(chain, {.versions = 5, .lease_s = 0}).ok();
        if (what == 2) is_ok = compact(chain, kernels::cpu_kernels()).ok();
        if (what == 3) is_ok = copy_content(chain, copy).ok();
        if (!is_ok) ::_exit(1);
      }
    }
    ::usleep(2000 + random() % 40000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    // A copy whose source is pruned below its last version has another history: that is named.
    ASSERT_TRUE(WIFSIGNALED(status) || what == 3) << what << " ended by itself: " << status;
    if (WIFEXITED(status)) std::filesystem::remove_all(folder / "copy");
    chain.forget();
    const std::optional<VersionRecord> newest = *chain.newest();
    if (!newest) continue;
    EXPECT_GE(newest->version, least);
    least = newest->version;
    HeldTensors held(kTensors);
    const Status restored = bring(held, *newest);
    ASSERT_TRUE(restored.ok()) << round << ": " << restored.message();
    std::uint64_t says = 0;
    std::memcpy(&says, held.tensor(3).data(), sizeof says);
    EXPECT_EQ(says, newest->version);
    expect_whole(chain);
  }
  EXPECT_GT(least, 0U);
  // What they left goes.
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder / "store"))
    make_old(each.path());
  ASSERT_TRUE(prune(chain, {.versions = 1, .lease_s = 0}).ok());
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder / "store"))
    EXPECT_FALSE(each.path().filename().string().starts_with(".new-")) << each.path();
  expect_whole(chain);
}

}  // namespace
}  // namespace sparcl::store
