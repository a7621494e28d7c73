// A publisher that runs out of memory in the middle of a version, and one that comes after another was killed.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

const std::string kModelId("m");
const std::string kAnyPort("127.0.0.1:0");

// The second version cannot be coded; a replica that then comes needs an anchor of the first, and later gets the third.
int publish_out_of_memory() {
  SmallModel source, copy(7);
  PublisherOptions options;
  options.listen = kAnyPort;
  options.model_id = kModelId;
  const auto publisher = std::move(*Publisher::create(source.view(), options));
  if (!publisher->publish(1).ok()) return 1;
  const Hash128 first = source.hash();
  source.step(1);
  try {
    (void)publisher->publish(2);
    return 2;
  } catch (const std::bad_alloc&) {
  }
  SubscriberOptions subscribing;
  subscribing.model_id = kModelId;
  const auto replica = std::move(*Subscriber::create(copy.view(), publisher->address(), subscribing));
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

// Its numbers begin again: what a replica came with is nothing that it holds, whatever the number.
TEST(PublisherFailure, AReplicaFollowsANewOneWhoseNumbersAreLower) {
  SmallModel source(0, 8'000'000), copy(7, 8'000'000);  // an anchor takes a while
  PublisherOptions options;
  options.listen = kAnyPort;
  options.model_id = kModelId;
  auto publisher = std::move(*Publisher::create(source.view(), options));
  options.listen = publisher->address();
  ASSERT_TRUE(publisher->publish(5).ok());
  SubscriberOptions subscribing;
  subscribing.model_id = kModelId;
  const auto replica = std::move(*Subscriber::create(copy.view(), publisher->address(), subscribing));
  ASSERT_TRUE(replica->next(20).ok());
  publisher.reset();

  Result<Listener> listener = Listener::open(options.listen);
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

}  // namespace
}  // namespace sparcl::replication
