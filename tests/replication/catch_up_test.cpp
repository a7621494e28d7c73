// Replicas that are far behind: one update where several change the same elements, and never beyond
// where a replica will stop.

#include <gtest/gtest.h>

#include <thread>

#include "tests/replication/replica_pair.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::replication {
namespace {

using test::TempFolder;
using test::write_text;

constexpr int kChanges = 2'500;
constexpr std::size_t kBusy =
    40'000;  // elements, of 200,000: after eight steps a fifth fewer than these have changed

class CatchUp : public ::testing::Test {
 protected:
  void publish_first() { ASSERT_TRUE(publisher_->publish(1).ok()); }
  void publish_to(std::uint64_t version, std::size_t among = kBusy) {
    while (newest_ < version) {
      source_.step(100 + newest_, kChanges, among);
      const auto report = publisher_->publish(++newest_);
      ASSERT_TRUE(report.ok()) << report.status().message();
      chain_bytes_ += report->stream_bytes;
    }
  }
  std::unique_ptr<Subscriber> open_replica(SmallModel& model, const std::string& trust = "") const {
    SubscriberOptions options = replica_options();
    options.trust_path = trust;
    return std::move(*Subscriber::create(model.view(), publisher_->address(), options));
  }
  // Until it holds the newest version.
  static Subscriber::Swap follow(Subscriber& replica, std::uint64_t version) {
    Subscriber::Swap all;
    while (all.version < version) {
      const auto swap = replica.next(20);
      EXPECT_TRUE(swap.ok()) << swap.status().message();
      if (!swap.ok()) break;
      all.version = swap->version;
      all.hash = swap->hash;
      all.updates += swap->updates;
      all.stream_bytes += swap->stream_bytes;
      all.by_anchor = all.by_anchor || swap->by_anchor;
    }
    return all;
  }

  void open(const std::string& key = "") {
    PublisherOptions options = local_options();
    options.key_path = key;
    publisher_ = std::move(*Publisher::create(source_.view(), options));
  }

  SmallModel source_;
  std::unique_ptr<Publisher> publisher_;
  std::uint64_t newest_ = 1;
  std::uint64_t chain_bytes_ = 0;
};

TEST_F(CatchUp, OneUpdateBringsOnWhatIsFarBehind) {
  open();
  publish_first();
  SmallModel copies[3];
  publish_to(9);
  for (SmallModel& copy : copies) {  // the second and third take what was made for the first
    const auto replica = open_replica(copy);
    const Subscriber::Swap swap = follow(*replica, 9);
    EXPECT_EQ(swap.updates, 1);
    EXPECT_FALSE(swap.by_anchor);
    EXPECT_LT(swap.stream_bytes, chain_bytes_ * 9 / 10);
    EXPECT_EQ(copy.hash(), source_.hash());
    EXPECT_EQ(swap.hash, source_.hash());
  }
}

// Two small updates are under way at most, and too little to be composed: all the same only the
// newest version is shown.
TEST_F(CatchUp, OneThatIsSeveralSmallVersionsBehindShowsTheNewestAlone) {
  open();
  publish_first();
  SmallModel copy;
  const auto replica = open_replica(copy);
  EXPECT_EQ(follow(*replica, 1).version, 1u);
  for (std::uint64_t version = 2; version <= 12; ++version) {
    source_.step(version, 3, kBusy);
    ASSERT_TRUE(publisher_->publish(version).ok());
  }
  const double deadline = net::monotonic_seconds() + 20;
  while (replica->versions().newest < 12 && net::monotonic_seconds() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(replica->versions().newest, 12u)
      << "it is told though it is sent no more before it applies";
  const auto swap = replica->next(20);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_EQ(swap->version, 12u);
  EXPECT_EQ(copy.hash(), source_.hash());
}

TEST_F(CatchUp, WhatWasComposedLeadsOnToLaterVersions) {
  open();
  publish_first();
  publish_to(9);
  SmallModel first, second;
  const auto replica = open_replica(first);
  EXPECT_EQ(follow(*replica, 9).updates, 1);
  publish_to(10);
  const auto later = open_replica(second);
  EXPECT_EQ(follow(*later, 10).updates, 2);
  EXPECT_EQ(follow(*replica, 10).updates, 1);
  EXPECT_EQ(first.hash(), source_.hash());
  EXPECT_EQ(second.hash(), source_.hash());
}

TEST_F(CatchUp, WhereAllElementsDifferOneUpdateComesAfterTheOther) {
  open();
  publish_first();
  publish_to(9, 200'000);
  SmallModel copy;
  const auto replica = open_replica(copy);
  const Subscriber::Swap swap = follow(*replica, 9);
  EXPECT_EQ(swap.updates, 8);
  EXPECT_EQ(swap.stream_bytes, chain_bytes_);
  EXPECT_EQ(copy.hash(), source_.hash());
}

TEST_F(CatchUp, APinnedReplicaIsLedUpToItsPin) {
  open();
  publish_first();
  publish_to(9);
  SmallModel other, copy;
  EXPECT_EQ(follow(*open_replica(other), 9).updates, 1);  // it is there already
  const auto replica = open_replica(copy);
  ASSERT_TRUE(replica->pin(5).ok());
  EXPECT_EQ(follow(*replica, 5).updates, 4);
  EXPECT_EQ(replica->next(0.1).status().code(), Code::kTimeout);
  EXPECT_EQ(replica->versions().held, 5U);
  ASSERT_TRUE(replica->pin(0).ok());
  EXPECT_EQ(follow(*replica, 9).version, 9U);
  EXPECT_EQ(copy.hash(), source_.hash());
}

// Two updates wait, the second of which passes it by.
TEST_F(CatchUp, APinThatComesLateIsReachedAllTheSame) {
  open();
  publish_first();
  SmallModel copy;
  const auto replica = open_replica(copy);
  follow(*replica, 1);
  publish_to(2);
  ASSERT_TRUE(publisher_->wait_staged(2, 1, 20).ok());
  publish_to(9);
  ASSERT_TRUE(publisher_->wait_staged(3, 1, 20).ok());  // one of its versions waits, too
  ASSERT_TRUE(replica->pin(6).ok());
  follow(*replica, 6);
  EXPECT_EQ(replica->next(0.1).status().code(), Code::kTimeout);
  EXPECT_EQ(replica->versions().held, 6U);
  ASSERT_TRUE(replica->pin(0).ok());
  follow(*replica, 9);
  EXPECT_EQ(copy.hash(), source_.hash());
}

TEST_F(CatchUp, SignedUpdatesAreComposedAndSigned) {
  const test::TempFolder folder;
  open(trust::private_file(folder / "key", trust::secret_line(trust::kVectors[0])));
  publish_first();
  publish_to(9);
  SmallModel copy;
  write_text(folder / "key.pub", trust::public_line(trust::kVectors[0]));
  const auto replica = open_replica(copy, folder / "key.pub");
  EXPECT_EQ(follow(*replica, 9).updates, 1);
  EXPECT_EQ(copy.hash(), source_.hash());
}

// publish() has no patience with it, and what waits for it goes on.
TEST_F(CatchUp, PublishingGoesOnMeanwhile) {
  open();
  publish_first();
  SmallModel copies[6];
  std::vector<std::unique_ptr<Subscriber>> replicas;
  for (int i = 0; i < 6; ++i) {
    publish_to(newest_ + 4);
    replicas.push_back(open_replica(copies[i]));
    publish_to(newest_ + 2);
  }
  for (int i = 0; i < 6; ++i) {
    follow(*replicas[static_cast<std::size_t>(i)], newest_);
    EXPECT_EQ(copies[i].hash(), source_.hash());
  }
}

}  // namespace
}  // namespace sparcl::replication
