#include "src/net/bounded_call.hpp"

#include <gtest/gtest.h>

#include <future>

#include "src/net/socket.hpp"

namespace sparcl::net {
namespace {

TEST(BoundedCall, ACallThatHangsDelaysItsCallerForABoundedTime) {
  std::promise<void> release;
  BoundedCall call;
  ASSERT_TRUE(call.start([wait = std::make_shared<std::future<void>>(release.get_future())] {
                    wait->get();
                    return Status(Code::kCorrupt, "late");
                  })
                  .ok());
  const double begin = monotonic_seconds();
  EXPECT_FALSE(call.wait(0.05).has_value());
  EXPECT_LT(monotonic_seconds() - begin, 5);
  EXPECT_TRUE(call.is_under_way());
  release.set_value();
  const std::optional<Status> late = call.wait(20);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->message(), "late");
  EXPECT_FALSE(call.is_under_way());
  ASSERT_TRUE(call.start([]() -> Status { throw std::bad_alloc(); }).ok());
  EXPECT_EQ(call.wait(20)->code(), Code::kOutOfMemory);
}

}  // namespace
}  // namespace sparcl::net
