// The rollback to the version before: without the network, checked, and forward again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;

class RollbackOfAReplica : public ::testing::Test {
 protected:
  void open_publisher() {
    publisher_ = std::move(*Publisher::create(source_.view(), local_options()));
  }
  std::unique_ptr<Subscriber> open_replica(SmallModel& model) const {
    return std::move(*Subscriber::create(model.view(), publisher_->address(), replica_options()));
  }
  void publish(std::uint64_t version, int changes = 2000) {
    source_.step(version, changes);
    ASSERT_TRUE(publisher_->publish(version).ok());
    hash_[version] = source_.hash();
  }
  void SetUp() override {
    open_publisher();
    replica_ = open_replica(copy_);
    publish(1);
    follow(1);
  }
  void follow(std::uint64_t version) {
    while (replica_->versions().held < version) {
      const auto swap = replica_->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
    }
    EXPECT_EQ(copy_.hash(), hash_[version]);
  }
  void go_back_to(std::uint64_t version) {
    ASSERT_TRUE(replica_->pin(version).ok());
    const auto swap = replica_->next(20);
    ASSERT_TRUE(swap.ok()) << swap.status().message();
    EXPECT_EQ(swap->version, version);
    EXPECT_EQ(swap->stream_bytes, 0U);
    EXPECT_EQ(replica_->versions().held, version);
    EXPECT_EQ(copy_.hash(), hash_[version]);
  }

  SmallModel source_, copy_{7};
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<Subscriber> replica_;
  std::map<std::uint64_t, Hash128> hash_;
};

TEST_F(RollbackOfAReplica, LeadsToTheVersionBeforeAndOnAgain) {
  publish(2);
  follow(2);
  go_back_to(1);
  EXPECT_EQ(replica_->next(0.2).status().code(), Code::kTimeout);
  EXPECT_EQ(replica_->versions().held, 1U);
  publish(3);
  EXPECT_EQ(replica_->next(0.2).status().code(), Code::kTimeout);
  ASSERT_TRUE(replica_->pin(0).ok());
  follow(3);
  EXPECT_TRUE(publisher_->wait(3, 1, 20).ok());
  go_back_to(1);  // next() has brought two updates
}

TEST_F(RollbackOfAReplica, NeedsNoPublisher) {
  publish(2);
  follow(2);
  publisher_ = nullptr;
  go_back_to(1);
}

TEST_F(RollbackOfAReplica, IsOneStep) {
  publish(2);
  follow(2);
  publish(3);
  follow(3);
  Status status = replica_->pin(1);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("can go back to version 2 alone"));
  go_back_to(2);
  status = replica_->pin(1);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it has gone back already"));
}

TEST_F(RollbackOfAReplica, IsNotThereAfterAllBytesHaveComeOrMost) {
  publish(2, 400'000);
  follow(2);
  const Status status = replica_->pin(1);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than a quarter of them"));
}

TEST_F(RollbackOfAReplica, MayBeGivenUpBeforeItIsGone) {
  publish(2);
  follow(2);
  ASSERT_TRUE(replica_->pin(1).ok());
  ASSERT_TRUE(replica_->pin(0).ok());
  publish(3);
  follow(3);
}

TEST_F(RollbackOfAReplica, IsRefusedWhereTheTensorsWereWrittenTo) {
  source_.poke(5, 0x1234);
  ASSERT_TRUE(publisher_->publish(2).ok());
  hash_[2] = source_.hash();
  follow(2);
  copy_.poke(5, 0x4321);
  const Hash128 before = copy_.hash();
  ASSERT_TRUE(replica_->pin(1).ok());
  const Status status = replica_->next(20).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr("they are as they were"));
  EXPECT_EQ(copy_.hash(), before);
}

// Those that take updates from it find another way.
TEST_F(RollbackOfAReplica, LeavesOthersWhereTheyAre) {
  SmallModel others[3];
  std::vector<std::unique_ptr<Subscriber>> replicas;
  for (SmallModel& each : others) {
    SubscriberOptions options = replica_options();
    options.shares_memory = false;
    replicas.push_back(std::move(*Subscriber::create(each.view(), publisher_->address(), options)));
  }
  publish(2);
  ASSERT_TRUE(publisher_->wait_staged(2, 4, 20).ok());
  follow(2);
  go_back_to(1);
  publish(3);
  for (std::size_t i = 0; i < 3; ++i) {
    while (replicas[i]->versions().held < 3) ASSERT_TRUE(replicas[i]->next(20).ok());
    EXPECT_EQ(others[i].hash(), hash_[3]);
  }
  EXPECT_EQ(copy_.hash(), hash_[1]);
}

TEST_F(RollbackOfAReplica, BackAndForthAllTheTime) {
  for (std::uint64_t version = 2; version < 40; ++version) {
    publish(version);
    ASSERT_TRUE(replica_->pin(0).ok());
    const std::uint64_t before = replica_->versions().held;
    while (replica_->versions().held < version) ASSERT_TRUE(replica_->next(20).ok());
    ASSERT_EQ(copy_.hash(), hash_[version]);
    if (version % 3 == 0 && replica_->pin(before).ok()) {
      ASSERT_TRUE(replica_->next(20).ok());
      ASSERT_EQ(copy_.hash(), hash_[before]);
    }
  }
}

}  // namespace
}  // namespace sparcl::replication
