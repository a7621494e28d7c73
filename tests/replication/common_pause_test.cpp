// A publisher and its replicas that stand still together, as in a container's freezer: nobody is
// given up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "src/base/log.hpp"
#include "tests/replication/replica_pair.hpp"

namespace sparcl::replication {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kSilence = 1;

// This whole process stands still for `seconds`.
void stand_still(double seconds) {
  const pid_t own = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::kill(own, SIGSTOP);
    ::usleep(static_cast<useconds_t>(seconds * 1e6));
    ::kill(own, SIGCONT);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

TEST(CommonPause, NobodyIsGivenUp) {
  SmallModel model;
  PublisherOptions options = local_options();
  options.silence_s = kSilence;
  const auto publisher = open_publisher(model, options);
  ASSERT_TRUE(publisher->publish(1).ok());
  SubscriberOptions like = replica_options();
  like.silence_s = kSilence;
  const SmallModel first_held(1), second_held(2);
  const auto first = open_replica(first_held, publisher->address(), like);
  const auto second = open_replica(second_held, publisher->address(), like);
  ASSERT_TRUE(first->next(RawPeer::kPatience).ok());
  ASSERT_TRUE(second->next(RawPeer::kPatience).ok());
  ASSERT_TRUE(publisher->wait(1, 2, RawPeer::kPatience).ok());
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) stand_still(2 * kSilence);
  model.step(1);
  EXPECT_TRUE(publisher->publish(2).ok());
  EXPECT_TRUE(first->next(RawPeer::kPatience).ok());
  EXPECT_TRUE(second->next(RawPeer::kPatience).ok());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, Not(HasSubstr("given up")));
  EXPECT_EQ(nlohmann::json::parse(publisher->status()).at("replicas_lost"), 0);
  EXPECT_TRUE(first->trouble().ok()) << first->trouble().message();
}

}  // namespace
}  // namespace sparcl::replication
