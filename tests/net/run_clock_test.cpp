// A service's clock counts the time in which it ran.

#include "src/net/run_clock.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace sparcl::net {
namespace {

TEST(RunClock, CountsNoMoreThanItsSlackOfALongGap) {
  RunClock clock(0.05);
  const double begin = clock.look();
  usleep(300'000);  // as after a stop signal
  EXPECT_LE(clock.look() - begin, 0.051);
  EXPECT_EQ(clock.now(), clock.now());
}

TEST(RunClock, CountsLongWaitsWhole) {
  RunClock clock(0.02);
  const double begin = clock.look(), real = monotonic_seconds();
  EXPECT_EQ(clock.poll({}, begin + 0.2), 0);
  EXPECT_GE(clock.now() - begin, 0.2);
  EXPECT_GE(monotonic_seconds() - real, 0.19);
}

TEST(RunClock, ReturnsWhenADescriptorIsReady) {
  Result<WakeEvent> event = WakeEvent::create();
  ASSERT_TRUE(event.ok());
  event->wake();
  RunClock clock(0.05);
  pollfd entry{event->fd(), POLLIN, 0};
  EXPECT_EQ(clock.poll(std::span(&entry, 1), clock.now() + 1000), 1);
}

}  // namespace
}  // namespace sparcl::net
