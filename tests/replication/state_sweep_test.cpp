// A replica looks at all that it holds now and then.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;

const std::string kModelId("m");
const std::string kAnyPort("127.0.0.1:0");

std::unique_ptr<Publisher> open_publisher(const SmallModel& source) {
  PublisherOptions options;
  options.listen = kAnyPort;
  options.model_id = kModelId;
  return std::move(*Publisher::create(source.view(), options));
}

std::unique_ptr<Subscriber> open_replica(const SmallModel& model, const std::string& address, double sweep_s) {
  SubscriberOptions options;
  options.model_id = kModelId;
  options.sweep_s = sweep_s;
  return std::move(*Subscriber::create(model.view(), address, options));
}

TEST(StateSweep, DamagedTensorsAreNamedAndMadeGood) {
  SmallModel source, copy(7);
  const auto publisher = open_publisher(source);
  const auto replica = open_replica(copy, publisher->address(), 0.05);
  source.step(1);
  ASSERT_TRUE(publisher->publish(1).ok());
  ASSERT_TRUE(replica->next(20).ok());
  for (const std::uint64_t version : {2, 3}) {
    copy.poke(199'999, static_cast<std::uint16_t>(0x7000 + version));
    const auto swap = replica->next(20);
    EXPECT_EQ(swap.status().code(), Code::kCorrupt);
    EXPECT_THAT(std::string(swap.status().message()), HasSubstr("do not hold version"));
    EXPECT_EQ(replica->versions().held, 0U);
    bool by_repair = false;
    while (replica->versions().held < version - 1) {
      const auto healed = replica->next(20);
      ASSERT_TRUE(healed.ok()) << healed.status().message();
      by_repair = by_repair || healed->by_repair;
      EXPECT_FALSE(healed->by_anchor);
    }
    EXPECT_TRUE(by_repair);
    EXPECT_EQ(copy.hash(), source.hash());
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
    while (replica->versions().held < version) {
      const auto next = replica->next(20);
      ASSERT_TRUE(next.ok()) << next.status().message();
      EXPECT_FALSE(next->by_anchor);
    }
    EXPECT_EQ(copy.hash(), source.hash());
  }
}

TEST(StateSweep, FindsNothingWhereNothingIsWrong) {
  SmallModel source(0, 3'000'000), copy(7, 3'000'000);
  const auto publisher = open_publisher(source);
  const auto replica = open_replica(copy, publisher->address(), 1e-4);
  for (std::uint64_t version = 1; version <= 60; ++version) {
    source.step(version);
    ASSERT_TRUE(publisher->publish(version).ok());
    while (replica->versions().held < version) {
      const auto swap = replica->next(20);
      ASSERT_TRUE(swap.ok()) << swap.status().message();
    }
    if (version % 10 == 0) {
      EXPECT_EQ(replica->next(0.05).status().code(), Code::kTimeout);
    }
    ASSERT_EQ(copy.hash(), source.hash());
  }
}

TEST(StateSweep, NeverLooksWhereItIsOff) {
  SmallModel source, copy(7);
  const auto publisher = open_publisher(source);
  const auto replica = open_replica(copy, publisher->address(), 0);
  ASSERT_TRUE(publisher->publish(1).ok());
  ASSERT_TRUE(replica->next(20).ok());
  copy.poke(5, 0x7001);
  EXPECT_EQ(replica->next(0.3).status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace sparcl::replication
