#include "src/net/heartbeat/watch_clock.hpp"

#include <gtest/gtest.h>

namespace sparcl::net {
namespace {

TEST(WatchClock, AsksByTheTimeHoweverManyTurnsItTakes) {
  WatchClock clock;
  clock.wait_begins(100);
  for (int turn = 0; turn < 1000; ++turn)
    EXPECT_FALSE(clock.is_due(100.009));  // a short wait is nobody's business
  EXPECT_TRUE(clock.is_due(100.2));       // the first turn after a long one
  EXPECT_FALSE(clock.is_due(100.21));
  EXPECT_TRUE(clock.is_due(100.32));
}

TEST(WatchClock, BeginsAnewWithEachWait) {
  WatchClock clock;
  clock.wait_begins(1);
  EXPECT_TRUE(clock.is_due(2));
  clock.wait_begins(2.001);
  EXPECT_FALSE(clock.is_due(2.005));
  EXPECT_TRUE(clock.is_due(2.02));
}

}  // namespace
}  // namespace sparcl::net
