// sparclGetLastError: the error that the calling thread got last, whatever the call was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LastError, IsThatOfTheCallThatFailedLastWithAnyComm) {
  ThreadRanks party(1);
  const sparclComm_t comm = party.comm(0);
  sparclMask_t mask = nullptr;
  sparclFeedback_t feedback = nullptr, sound = nullptr;
  sparclState_t state = nullptr;
  sparclPublisher_t publisher = nullptr;
  sparclSubscriber_t subscriber = nullptr;
  sparclUniqueId id{};
  sparclComm_t other = nullptr;
  float value = 0;
  const std::uint64_t shape[] = {1};
  ASSERT_EQ(sparclFeedbackCreate(&sound, 1, sparclFloat32), sparclSuccess);
  ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
  const std::vector<std::pair<const char*, std::function<sparclResult_t()>>> calls{
      {"sparclMaskCreateRandom", [&] { return sparclMaskCreateRandom(&mask, 10, 2.0, 1); }},
      {"sparclFeedbackCreate", [&] { return sparclFeedbackCreate(&feedback, 10, sparclInt8); }},
      {"sparclFeedbackLoad", [&] { return sparclFeedbackLoad(&feedback, "/nonexistent/f"); }},
      {"sparclFeedbackSave", [&] { return sparclFeedbackSave(sound, "/nonexistent/f"); }},
      {"sparclWait", [&] { return sparclWait(nullptr, nullptr); }},
      {"sparclTest", [&] { return sparclTest(nullptr, nullptr, nullptr); }},
      {"sparclStateAdd",
       [&] { return sparclStateAdd(state, "", &value, sparclFloat32, 1, shape); }},
      {"sparclStateHash", [&] { return sparclStateHash(nullptr, nullptr); }},
      {"sparclPublisherCreate",
       [&] { return sparclPublisherCreate(&publisher, nullptr, nullptr); }},
      {"sparclPublish", [&] { return sparclPublish(nullptr, 1); }},
      {"sparclSubscriberCreate",
       [&] { return sparclSubscriberCreate(&subscriber, state, nullptr, nullptr); }},
      {"sparclSubscriberNext", [&] { return sparclSubscriberNext(nullptr, 1, nullptr); }},
      {"sparclCommInitRank", [&] { return sparclCommInitRank(&other, 0, id, 0, nullptr); }},
      {"sparclCommInitLocal", [&] { return sparclCommInitLocal(nullptr, 1); }},
      {"sparclGetVersion", [&] { return sparclGetVersion(nullptr); }},
      {"sparclBroadcastDelta",
       [&] {
         return sparclBroadcastDelta(&value, nullptr, 1, sparclFloat32, 9, nullptr, comm, nullptr);
       }},
      {"sparclMaskDestroy", [&] { return sparclMaskDestroy(reinterpret_cast<sparclMask_t>(8)); }},
  };
  for (const auto& [name, call] : calls) {
    EXPECT_NE(call(), sparclSuccess) << name;
    EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr(std::string(name) + ": "));
    EXPECT_STREQ(sparclGetLastError(comm), sparclGetLastError(nullptr)) << name;
    std::vector<float> array(1);
    EXPECT_EQ(
        sparclBroadcastDelta(array.data(), nullptr, 1, sparclFloat32, 0, nullptr, comm, nullptr),
        sparclSuccess);
    EXPECT_THAT(sparclGetLastError(comm), HasSubstr(std::string(name) + ": "))
        << "a success leaves it";
  }
  EXPECT_EQ(sparclFeedbackDestroy(sound), sparclSuccess);
  EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
}

TEST(LastError, DrivesNoTerminal) {
  sparclFeedback_t feedback = nullptr;
  EXPECT_NE(sparclFeedbackLoad(&feedback, "/nonexistent/\x1b[2J\n\xe2\x80\xae"), sparclSuccess);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("/nonexistent/\\x1b[2J\\x0a\\xe2\\x80\\xae"));
}

TEST(LastError, ARefusedSecondThreadIsToldWhy) {
  ThreadRanks party(2);
  std::atomic<bool> is_refused{false};
  std::vector<float> weights(100);
  std::thread first([&] {
    sparclResult_t result = sparclInvalidUsage;  // while the other thread asks for the report
    while (result == sparclInvalidUsage)
      result = sparclBroadcastDelta(weights.data(), nullptr, 100, sparclFloat32, 0, nullptr,
                                    party.comm(0), nullptr);
    EXPECT_EQ(result, sparclSuccess);
  });
  std::thread second([&] {
    std::vector<float> other(100);
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    while (sparclCommLastReport(party.comm(0), &report) == sparclSuccess) std::this_thread::yield();
    EXPECT_THAT(sparclGetLastError(party.comm(0)),
                StartsWith("sparclCommLastReport: another thread is in a call"));
    EXPECT_EQ(sparclBroadcastDelta(other.data(), nullptr, 100, sparclFloat32, 0, nullptr,
                                   party.comm(0), nullptr),
              sparclInvalidUsage);
    EXPECT_THAT(sparclGetLastError(party.comm(0)),
                StartsWith("sparclBroadcastDelta: another thread is in a call"));
    is_refused = true;
  });
  second.join();
  EXPECT_TRUE(is_refused);
  std::vector<float> received(100);
  EXPECT_EQ(sparclBroadcastDelta(received.data(), nullptr, 100, sparclFloat32, 0, nullptr,
                                 party.comm(1), nullptr),
            sparclSuccess);
  first.join();
}

TEST(LastError, AnotherThreadIsToldTheCommsUnlessItHasANewerOne) {
  ThreadRanks party(1);
  const sparclComm_t comm = party.comm(0);
  EXPECT_EQ(sparclCommInitLocal(nullptr, 1), sparclInvalidArgument);
  const auto fail_in_comm = [&] {
    float value = 0;
    EXPECT_EQ(sparclBroadcastDelta(&value, nullptr, 1, sparclFloat32, 5, nullptr, comm, nullptr),
              sparclInvalidArgument);
  };
  std::thread(fail_in_comm).join();
  EXPECT_THAT(sparclGetLastError(comm), HasSubstr("root 5"));
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("sparclCommInitLocal")) << "this thread's own";
  EXPECT_EQ(sparclGetVersion(nullptr), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(comm), HasSubstr("sparclGetVersion"));
  std::thread([&] {
    fail_in_comm();
    EXPECT_EQ(sparclBroadcastDelta(nullptr, nullptr, 1, sparclFloat32, 0, nullptr, comm, nullptr),
              sparclInvalidArgument);
  }).join();
  EXPECT_THAT(sparclGetLastError(comm), HasSubstr("weights is NULL"));
}

TEST(LastError, AWatchdogThatFindsAnErrorHasATextForIt) {
  ThreadRanks party(2);
  std::vector<float> weights(100);
  std::thread first([&] {
    EXPECT_EQ(sparclBroadcastDelta(weights.data(), nullptr, 100, sparclFloat32, 0, nullptr,
                                   party.comm(0), nullptr),
              sparclRemoteError);
    sparclResult_t error = sparclSuccess;
    std::thread([&] {
      EXPECT_EQ(sparclCommGetAsyncError(party.comm(0), &error), sparclSuccess);
      EXPECT_EQ(error, sparclRemoteError);
      EXPECT_THAT(sparclGetLastError(nullptr),
                  HasSubstr("the communicator ended with sparclRemoteError because of rank 1"));
    }).join();
  });
  EXPECT_EQ(sparclCommAbort(party.comm(1)), sparclSuccess);
  first.join();
}

}  // namespace
}  // namespace sparcl::test
