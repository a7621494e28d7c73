// A version is prepared first and shown later: prepare() writes nothing, commit() shows exactly
// that version.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

class Prepare : public ::testing::Test {
 protected:
  void SetUp() override {
    publisher_ = open_publisher(source_);
    open();
  }
  void open(bool double_buffer = false) {
    replica_.reset();
    SubscriberOptions options = replica_options();
    options.double_buffer = double_buffer;
    options.sweep_s = 0;
    replica_ = open_replica(copy_, publisher_->address(), options);
  }
  void publish(std::uint64_t version) {
    source_.step(version);
    ASSERT_TRUE(publisher_->publish(version).ok());
    hash_[version] = source_.hash();
  }
  // The publisher has sent so many updates that no more come before one is applied.
  std::vector<PreparedVersion> prepare_steps(std::size_t steps) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < limit) {
      const auto prepared = replica_->prepare(0.1);  // at once if one step is ready
      EXPECT_TRUE(prepared.ok()) << prepared.status().message();
      if (!prepared.ok() || prepared->ready.size() >= steps) return prepared->ready;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return {};
  }
  std::uint64_t prepare() {
    const auto prepared = replica_->prepare(20);
    EXPECT_TRUE(prepared.ok()) << prepared.status().message();
    return prepared.ok() && !prepared->ready.empty() ? prepared->ready.back().version : 0;
  }
  void expect_shown(std::uint64_t version) {
    EXPECT_EQ(replica_->versions().held, version);
    EXPECT_EQ(copy_.hash(), hash_.at(version));
  }
  void commit(std::uint64_t version) {
    const auto swap = replica_->commit(version);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_EQ(swap->version, version);
  }

  SmallModel source_, copy_{7};
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<Subscriber> replica_;
  std::map<std::uint64_t, Hash128> hash_;
};

TEST_F(Prepare, WritesNothingUntilTheCommit) {
  const Hash128 brought = copy_.hash();
  publish(1);
  EXPECT_EQ(prepare(), 1U);
  EXPECT_EQ(prepare(), 1U) << "again";
  EXPECT_EQ(copy_.hash(), brought);
  EXPECT_EQ(replica_->versions().held, 0U);
  commit(1);
  expect_shown(1);
  const auto nothing = replica_->prepare(0.01);
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->ready.empty());
  EXPECT_EQ(nothing->shown.version, 1U);
  EXPECT_EQ(replica_->nothing_newer(0.01).code(), Code::kTimeout);
  commit(1);  // it is shown: nothing changes
  expect_shown(1);
}

TEST_F(Prepare, LaterVersionsAreNotShownByACommit) {
  publish(1);
  ASSERT_EQ(prepare(), 1U);
  publish(2);
  publish(3);
  ASSERT_EQ(prepare_steps(2).size(), 2U);
  commit(1);
  expect_shown(1);
  while (replica_->versions().held < 3) ASSERT_TRUE(replica_->next(20).ok());
  expect_shown(3);
}

TEST_F(Prepare, SeveralStepsAreOneCommit) {
  publish(1);
  commit(prepare());
  publish(2);
  publish(3);
  const std::vector<PreparedVersion> ready = prepare_steps(2);
  ASSERT_EQ(ready.size(), 2U);
  EXPECT_EQ(ready[0].version, 2U);
  const auto swap = replica_->commit(3);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_EQ(swap->updates, 2);
  expect_shown(3);
}

TEST_F(Prepare, AVersionThatIsNotPreparedIsRefused) {
  const auto none = replica_->commit(1);
  EXPECT_EQ(none.status().code(), Code::kInvalidUsage);
  EXPECT_NE(none.status().message().find("version 1 is not prepared, and no other one is"),
            std::string::npos)
      << none.status().message();
  publish(1);
  ASSERT_EQ(prepare(), 1U);
  const auto other = replica_->commit(2);
  EXPECT_EQ(other.status().code(), Code::kInvalidUsage);
  EXPECT_NE(other.status().message().find("version 2 is not prepared, version 1 is"),
            std::string::npos)
      << other.status().message();
  commit(1);
}

TEST_F(Prepare, AVersionOfAReplacedPublisherIsRefused) {
  publish(1);
  commit(prepare());
  publish(2);
  ASSERT_EQ(prepare(), 2U);
  PublisherOptions options = local_options();
  options.listen = publisher_->address();
  publisher_.reset();
  SmallModel other(3);
  publisher_ = open_publisher(other, options);
  ASSERT_TRUE(publisher_->publish(9).ok());
  for (int i = 0; i < 4000 && replica_->versions().newest != 9; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto prepared = replica_->prepare(20);
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  ASSERT_EQ(prepared->ready.back().version, 9U);
  EXPECT_GT(prepared->ready.back(), prepared->shown);
  EXPECT_EQ(replica_->commit(2).status().code(), Code::kInvalidUsage);
  expect_shown(1);
  commit(9);
  EXPECT_TRUE(copy_.is_same_as(other));
}

TEST_F(Prepare, WhatWasWithdrawnSinceIsToldByName) {
  publish(1);
  commit(prepare());
  publish(2);
  ASSERT_EQ(prepare(), 2U);
  ASSERT_TRUE(replica_->pin(1).ok());
  const auto swap = replica_->commit(2);
  EXPECT_EQ(swap.status().code(), Code::kWrongBase);
  EXPECT_NE(swap.status().message().find("version 2 was prepared and cannot be shown any more"),
            std::string::npos)
      << swap.status().message();
  expect_shown(1);
  ASSERT_TRUE(replica_->pin(0).ok());
  commit(prepare());
  expect_shown(2);
}

// The second step finds the tensors damaged: the first one is undone.
TEST_F(Prepare, AFailedStepLeavesTheTensorsAsTheyWere) {
  for (const bool double_buffer : {false, true}) {
    hash_.clear();
    replica_.reset();
    publisher_.reset();
    publisher_ = open_publisher(source_);
    open(double_buffer);
    publish(1);
    commit(prepare());
    std::vector<std::byte*> shown{const_cast<std::byte*>(replica_->array(0)),
                                  const_cast<std::byte*>(replica_->array(1))};
    EXPECT_EQ(copy_.view().hash_of(shown), hash_[1]);
    source_.poke(5, static_cast<std::uint16_t>(source_.at(5) + 1));
    ASSERT_TRUE(publisher_->publish(2).ok());
    source_.poke(77, static_cast<std::uint16_t>(source_.at(77) + 1));
    ASSERT_TRUE(publisher_->publish(3).ok());
    hash_[3] = source_.hash();
    ASSERT_EQ(prepare_steps(2).size(), 2U);
    auto* const weights = reinterpret_cast<std::uint16_t*>(shown[0]);
    const std::uint16_t right = std::exchange(weights[77], static_cast<std::uint16_t>(0x1234));
    const auto swap = replica_->commit(3);
    ASSERT_FALSE(swap.ok());
    EXPECT_EQ(replica_->versions().held, 1U) << swap.status().message();
    EXPECT_EQ(reinterpret_cast<const std::byte*>(weights), replica_->array(0));
    weights[77] = right;
    EXPECT_EQ(copy_.view().hash_of(shown), hash_[1]);
    while (replica_->versions().held < 3) ASSERT_TRUE(replica_->next(20).ok());
    shown = {const_cast<std::byte*>(replica_->array(0)),
             const_cast<std::byte*>(replica_->array(1))};
    EXPECT_EQ(copy_.view().hash_of(shown), hash_[3]);
  }
}

TEST_F(Prepare, WithTwoSetsTheShownOneStaysUntilTheCommit) {
  open(true);
  publish(1);
  commit(prepare());
  const std::byte* const shown = replica_->array(0);
  publish(2);
  ASSERT_EQ(prepare(), 2U);
  EXPECT_EQ(replica_->array(0), shown);
  const auto swap = replica_->commit(2);
  ASSERT_TRUE(swap.ok());
  EXPECT_EQ(swap->pause_s, 0);
  EXPECT_NE(replica_->array(0), shown);
}

TEST_F(Prepare, AStepBackIsPreparedToo) {
  publish(1);
  commit(prepare());
  publish(2);
  commit(prepare());
  ASSERT_TRUE(replica_->pin(1).ok());
  EXPECT_EQ(prepare(), 1U);
  expect_shown(2);
  commit(1);
  expect_shown(1);
}

// More than the two updates that a replica is sent ahead: it names the version that it wants.
TEST_F(Prepare, AWantedVersionComesThoughNothingIsShown) {
  publish(1);
  commit(prepare());
  for (std::uint64_t version = 2; version <= 12; ++version) publish(version);
  const std::vector<PreparedVersion> few = prepare_steps(2);
  ASSERT_EQ(few.size(), 2U);
  const PreparedVersion wanted{few.front().epoch, 12};
  const auto prepared = replica_->prepare(20, wanted);
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  ASSERT_TRUE(prepared->can_show(wanted)) << prepared->newest().version;
  expect_shown(1);
  commit(12);
  expect_shown(12);
  publish(13);  // and it goes on as before
  commit(prepare());
  expect_shown(13);
}

// All bytes of its first version do not count as updates that wait.
TEST_F(Prepare, AWantedVersionComesToAReplicaWithoutAnyToo) {
  publish(1);
  ASSERT_EQ(prepare(), 1U);
  for (std::uint64_t version = 2; version <= 6; ++version) publish(version);
  const std::vector<PreparedVersion> few = prepare_steps(2);
  ASSERT_EQ(few.size(), 2U);
  const PreparedVersion wanted{few.front().epoch, 6};
  const auto prepared = replica_->prepare(20, wanted);
  ASSERT_TRUE(prepared.ok()) << prepared.status().message();
  ASSERT_TRUE(prepared->can_show(wanted)) << prepared->newest().version;
  commit(6);
  expect_shown(6);
}

}  // namespace
}  // namespace sparcl::replication
