// A publisher that runs out of memory in the middle of a version, and one that comes after another
// was killed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

// The second version cannot be coded; a replica that then comes needs an anchor of the first, and
// later gets the third.
int publish_out_of_memory() {
  SmallModel source, copy(7);
  const auto publisher = std::move(*Publisher::create(source.view(), local_options()));
  if (!publisher->publish(1).ok()) return 1;
  const Hash128 first = source.hash();
  source.step(1);
  try {
    (void)publisher->publish(2);
    return 2;
  } catch (const std::bad_alloc&) {
  }
  const auto replica =
      std::move(*Subscriber::create(copy.view(), publisher->address(), replica_options()));
  if (!replica->next(20).ok() || copy.hash() != first) return 3;
  if (!publisher->publish(3).ok()) return 4;
  return replica->next(20).ok() && copy.hash() == source.hash() ? 0 : 5;
}

TEST(PublisherFailure, AVersionThatCannotBeCodedHarmsNoOther) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("SPARCL_TEST_FAILPOINT", "publisher.encoding:1:throw", 1);
  EXPECT_EXIT(std::exit(publish_out_of_memory()), ::testing::ExitedWithCode(0), "");
  ::unsetenv("SPARCL_TEST_FAILPOINT");
}

// The first bytes that come find no memory: they are asked for again.
int receive_out_of_memory() {
  SmallModel source, copy(7);
  const auto publisher = std::move(*Publisher::create(source.view(), local_options()));
  if (!publisher->publish(1).ok()) return 1;
  SubscriberOptions subscribing = replica_options();
  subscribing.shares_memory = false;
  const auto replica =
      std::move(*Subscriber::create(copy.view(), publisher->address(), subscribing));
  const Status first = replica->next(0.5).status();
  if (first.code() != Code::kOutOfMemory) return 2;
  return replica->next(20).ok() && copy.hash() == source.hash() ? 0 : 3;
}

TEST(SubscriberFailure, WhatFindsNoMemoryIsAskedForAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("SPARCL_TEST_FAILPOINT", "subscriber.receiving:1:throw", 1);
  EXPECT_EXIT(std::exit(receive_out_of_memory()), ::testing::ExitedWithCode(0), "");
  ::unsetenv("SPARCL_TEST_FAILPOINT");
}

// Its numbers begin again: what a replica came with is nothing that it holds, whatever the number.
TEST(PublisherFailure, AReplicaFollowsANewOneWhoseNumbersAreLower) {
  SmallModel source(0, 8'000'000), copy(7, 8'000'000);  // an anchor takes a while
  PublisherOptions options = local_options();
  auto publisher = std::move(*Publisher::create(source.view(), options));
  options.listen = publisher->address();
  ASSERT_TRUE(publisher->publish(5).ok());
  const auto replica =
      std::move(*Subscriber::create(copy.view(), publisher->address(), replica_options()));
  ASSERT_TRUE(replica->next(20).ok());
  publisher.reset();

  Result<Listener> listener = Listener::open(options.listen, Reach::kThisMachine);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  publisher = std::move(*Publisher::create(source.view(), options, std::move(*listener)));
  for (std::uint64_t version = 1; version <= 3; ++version) {
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
  }
  ASSERT_TRUE(publisher->start_serving().ok());
  EXPECT_EQ(publisher->wait_staged(3, 1, 20).message(), "");
  EXPECT_EQ(publisher->count(1).holding, 0);  // all that it holds is 5 of the other one
  const auto swap = replica->next(20);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_EQ(swap->version, 3U);
  EXPECT_EQ(copy.hash(), source.hash());
  EXPECT_EQ(publisher->wait(3, 1, 20).message(), "");
  EXPECT_EQ(publisher->count(3).holding, 1);
}

// A publisher that is started again at one address, as often as a test likes.
class Lives {
 public:
  explicit Lives(const SmallModel& model) : model_(model) { options_.model_id = kModelId; }
  Publisher& begin() {
    end();
    options_.listen = address_.empty() ? kAnyPort : address_;
    publisher_ = std::move(*Publisher::create(model_.view(), options_));
    address_ = publisher_->address();
    return *publisher_;
  }
  void end() { publisher_ = nullptr; }
  std::unique_ptr<Subscriber> subscribe(const SmallModel& copy) const {
    return std::move(*Subscriber::create(copy.view(), address_, replica_options()));
  }

 private:
  const SmallModel& model_;
  PublisherOptions options_;
  std::string address_;
  std::unique_ptr<Publisher> publisher_;
};

// The trainer went on from version 2 again: version 3 of its life before waits at the replica, and
// is none of this one's.
TEST(PublisherFailure, WhatWaitsOfALifeBeforeIsNotApplied) {
  SmallModel source, copy(7);
  Lives lives(source);
  Publisher* publisher = &lives.begin();
  const auto replica = lives.subscribe(copy);
  ASSERT_TRUE(publisher->publish(1).ok() && replica->next(20).ok());
  source.step(2);
  ASSERT_TRUE(publisher->publish(2).ok() && replica->next(20).ok());
  ASSERT_TRUE(publisher->wait(2, 1, 20).ok());
  const std::vector<std::byte> second(source.view().arrays[0], source.view().arrays[0] + 400'000);
  const std::vector<std::byte> bias(source.view().arrays[1], source.view().arrays[1] + 400);
  source.step(3);
  ASSERT_TRUE(publisher->publish(3).ok() && publisher->wait_staged(3, 1, 20).ok());
  lives.end();
  std::ranges::copy(second, source.view().arrays[0]);
  std::ranges::copy(bias, source.view().arrays[1]);
  publisher = &lives.begin();
  ASSERT_TRUE(publisher->publish(2).ok());
  EXPECT_EQ(publisher->wait(2, 1, 20).message(), "");
  source.step(33);
  ASSERT_TRUE(publisher->publish(3).ok() &&
              publisher->wait_staged(3, 1, 20).ok());  // so the replica has heard of this life
  const auto swap = replica->next(20);
  ASSERT_TRUE(swap.ok()) << swap.status().message();
  EXPECT_EQ(swap->version, 3U);
  EXPECT_EQ(copy.hash(), source.hash());
  EXPECT_EQ(publisher->wait(3, 1, 20).message(), "");
}

TEST(PublisherFailure, AVersionThatIsPublishedAfterItsReplicaHasComeIsHeldByIt) {
  SmallModel source, copy(7);
  Lives lives(source);
  Publisher* publisher = &lives.begin();
  const auto replica = lives.subscribe(copy);
  ASSERT_TRUE(publisher->publish(7).ok() && replica->next(20).ok());
  publisher = &lives.begin();
  for (int i = 0; i < 2000 && publisher->count(0).connected == 0; ++i) usleep(5'000);
  ASSERT_EQ(publisher->count(0).connected, 1);
  ASSERT_TRUE(publisher->publish(7).ok());
  EXPECT_EQ(publisher->wait(7, 1, 20).message(), "");
}

// A pin that is reached is of the bytes that are held: another life's numbers begin again.
TEST(PublisherFailure, APinThatIsReachedHoldsAlsoWhereNumbersBeginAgain) {
  SmallModel source, copy(7);
  Lives lives(source);
  Publisher* publisher = &lives.begin();
  const auto replica = lives.subscribe(copy);
  ASSERT_TRUE(publisher->publish(2).ok() && replica->next(20).ok());
  ASSERT_TRUE(replica->pin(2).ok());
  const Hash128 held = copy.hash();
  source.step(5);
  publisher = &lives.begin();
  ASSERT_TRUE(publisher->publish(1).ok() && publisher->wait_staged(1, 1, 20).ok());
  EXPECT_EQ(replica->next(0.2).status().code(), Code::kTimeout);
  EXPECT_EQ(copy.hash(), held);
  ASSERT_TRUE(replica->pin(0).ok());
  ASSERT_TRUE(replica->next(20).ok());
  EXPECT_EQ(copy.hash(), source.hash());
}

}  // namespace
}  // namespace sparcl::replication
