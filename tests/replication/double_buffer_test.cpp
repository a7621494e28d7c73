// A replica with two sets of its arrays: what is read stays as it is while the next version is
// made.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

class DoubleBuffer : public ::testing::Test {
 protected:
  void SetUp() override {
    publisher_ = std::move(*Publisher::create(source_.view(), local_options()));
    open_replica();
  }
  void open_replica(bool keeps_rollback = true) {
    SubscriberOptions options = replica_options();
    options.double_buffer = true;
    options.keeps_rollback = keeps_rollback;
    options.sweep_s = sweep_s_;
    replica_ = std::move(*Subscriber::create(copy_.view(), publisher_->address(), options));
  }
  void publish(std::uint64_t version, int changes = 2000) {
    source_.step(version, changes);
    ASSERT_TRUE(publisher_->publish(version).ok());
    hash_[version] = source_.hash();
  }
  std::vector<std::byte*> shown() const {
    std::vector<std::byte*> arrays;
    for (std::size_t i = 0; i < 2; ++i)
      arrays.push_back(const_cast<std::byte*>(replica_->array(i)));
    return arrays;
  }
  Hash128 hash_of(const std::vector<std::byte*>& arrays) const {
    return copy_.view().hash_of(arrays);
  }

  // Each version is shown in the other set than the one before, which stays as it was.
  void follow(std::uint64_t version) {
    while (replica_->versions().held < version) {
      const std::vector<std::byte*> before = shown();
      const Hash128 held = hash_of(before);
      const auto swap = replica_->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
      EXPECT_EQ(swap->pause_s, 0);
      EXPECT_NE(shown(), before);
      EXPECT_EQ(hash_of(before), held);
      ASSERT_EQ(hash_of(shown()), hash_[swap->version]) << swap->version;
    }
  }

  double sweep_s_ = 0;
  SmallModel source_, copy_{7};
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<Subscriber> replica_;
  std::map<std::uint64_t, Hash128> hash_;
};

TEST_F(DoubleBuffer, TheVersionBeforeStaysWhileTheNextIsShown) {
  for (std::uint64_t version = 1; version < 12; ++version) {
    publish(version,
            version % 4 == 3 ? 400'000 : 2000);  // also more than is kept of what was replaced
    follow(version);
  }
}

TEST_F(DoubleBuffer, WithoutARollbackAllBytesAreCopied) {
  open_replica(false);
  for (std::uint64_t version = 1; version < 5; ++version) {
    publish(version);
    follow(version);
  }
}

TEST_F(DoubleBuffer, SeveralVersionsAtOnce) {
  publish(1);
  follow(1);
  for (std::uint64_t version = 2; version < 30; ++version) {
    publish(version);
    if (version % 3 == 0) {
      ASSERT_TRUE(publisher_->wait_staged(version - 1, 1, 20).ok());
      follow(version);
    }
  }
  follow(29);
}

TEST_F(DoubleBuffer, GoesBackInTheOtherSet) {
  publish(1);
  follow(1);
  for (std::uint64_t version = 2; version < 10; ++version) {
    publish(version);
    ASSERT_TRUE(replica_->pin(0).ok());
    const std::uint64_t held = replica_->versions().held;
    follow(version);
    const std::vector<std::byte*> before = shown();
    ASSERT_TRUE(replica_->pin(held).ok());
    const auto swap = replica_->next(20);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_EQ(swap->version, held);
    EXPECT_EQ(hash_of(before), hash_[version]);
    EXPECT_EQ(hash_of(shown()), hash_[held]);
    ASSERT_TRUE(replica_->pin(0).ok());
    follow(version);
  }
}

// What the rollback was found to miss is not taken for known the next time.
TEST_F(DoubleBuffer, ARollbackThatFailsLeavesWhatIsShown) {
  publish(1);
  follow(1);
  source_.poke(5, 0x1234);
  publish(2);
  follow(2);
  const std::vector<std::byte*> front = shown();
  std::uint16_t damaged = 0x4321;
  std::memcpy(front[0] + 10, &damaged, sizeof damaged);
  const Hash128 before = hash_of(front);
  ASSERT_TRUE(replica_->pin(1).ok());
  EXPECT_EQ(replica_->next(20).status().code(), Code::kCorrupt);
  EXPECT_EQ(shown(), front);
  EXPECT_EQ(hash_of(front), before);
}

TEST_F(DoubleBuffer, WhatWasDamagedIsFoundAndMadeGood) {
  sweep_s_ = 0.05;
  open_replica();
  for (std::uint64_t version = 1; version < 8; version += 2) {
    publish(version);
    follow(version);
    std::memset(const_cast<std::byte*>(replica_->array(0)) + 1000, 0x5b, 50);
    Status found;
    while (found.ok() || found.code() == Code::kTimeout) found = replica_->next(20).status();
    EXPECT_EQ(found.code(), Code::kCorrupt) << found.message();
    publish(version + 1);
    while (replica_->versions().held < version + 1) ASSERT_TRUE(replica_->next(20).ok());
    EXPECT_EQ(hash_of(shown()), hash_[version + 1]);
  }
}

// Others read all the time: what they read is one version, whole.
TEST_F(DoubleBuffer, ReadersNeverSeeAMixture) {
  publish(1);
  follow(1);
  std::atomic<std::uint64_t> read{1};  // the version that is to be read
  std::atomic<bool> is_over{false};
  std::atomic<int> passes{0}, torn{0};
  std::vector<Hash128> hash(40);
  hash[1] = hash_[1];
  std::vector<std::vector<std::byte*>> arrays(40);
  arrays[1] = shown();
  std::atomic<std::uint64_t> being_read{0};
  std::thread reader([&] {
    while (!is_over) {
      const std::uint64_t version = read;
      being_read = version;
      if (version != read) continue;
      torn += hash_of(arrays[version]) == hash[version] ? 0 : 1;
      ++passes;
      being_read = 0;
    }
  });
  for (std::uint64_t version = 2; version < 40; ++version) {
    publish(version);
    while (being_read != 0 && being_read < version - 1)
      std::this_thread::yield();  // nobody reads the one that is written now
    follow(version);
    hash[version] = hash_[version];
    arrays[version] = shown();
    read = version;
  }
  is_over = true;
  reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(passes, 0);
}

// The program writes to what is shown just what the next update brings: there it is checked, and
// the other set lacks it.
TEST_F(DoubleBuffer, WhatTheProgramHasWrittenItselfComesToTheOtherSet) {
  publish(1);
  follow(1);
  publish(2);
  follow(2);
  std::memcpy(shown()[0] + 5 * sizeof(std::uint16_t), "\x34\x12", 2);
  source_.poke(5, 0x1234);
  ASSERT_TRUE(publisher_->publish(3).ok());
  hash_[3] = source_.hash();
  const auto swap = replica_->next(20);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_EQ(swap->version, 3U);
  EXPECT_EQ(hash_of(shown()), hash_[3]);
}

// Between two of them the replica's thread checks the third, and looks for damage, where the second
// is: not where the first is shown.
TEST_F(DoubleBuffer, OneThatIsBehindClimbsInTheBack) {
  sweep_s_ = 0.001;
  open_replica();
  std::mt19937_64 random(3);
  std::uint64_t version = 0;
  int anchors = 0;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 8; ++i) {  // one of two elements becomes the other one of two values: what
                                   // is to come may be what is shown
      const std::size_t at = random() % 2;
      source_.poke(at, source_.at(at) ^ 1);
      ASSERT_TRUE(publisher_->publish(++version).ok());
      hash_[version] = source_.hash();
    }
    while (replica_->versions().held < version) {
      const auto swap = replica_->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
      ASSERT_EQ(hash_of(shown()), hash_[swap->version]) << swap->version;
      anchors += swap->by_anchor ? 1 : 0;
    }
  }
  EXPECT_EQ(anchors, 1);
}

}  // namespace
}  // namespace sparcl::replication
