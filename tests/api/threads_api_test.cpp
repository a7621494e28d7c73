// One thread at a time is in a communicator; a watchdog may ask, and end it, from another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.h"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::HasSubstr;

sparclResult_t broadcast(sparclComm_t comm) {
  std::vector<float> weights(100'000, 1.0F);
  return sparclBroadcastDelta(weights.data(), nullptr, weights.size(), sparclFloat32, 0, nullptr,
                              comm, nullptr);
}

// Another thread may be in the communicator, or not yet.
void wait_a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

TEST(Threads, AWatchdogAsksAndEndsTheCallOfAnother) {
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  for (const sparclResult_t result :
       party.run([](int, sparclComm_t comm) { return broadcast(comm); }))
    ASSERT_EQ(result, sparclSuccess);
  // Rank 2 does not come: the others wait for it until their watchdogs lose patience.
  const auto results = party.run([](int rank, sparclComm_t comm) {
    if (rank == 2) return sparclSuccess;
    std::atomic<bool> is_over{false};
    std::thread watchdog([&] {
      for (int i = 0; i < 200; ++i) {
        sparclResult_t error = sparclInternalError;
        int failed = -2;
        EXPECT_EQ(sparclCommGetAsyncError(comm, &error), sparclSuccess);
        EXPECT_EQ(sparclCommGetFailedRank(comm, &failed), sparclSuccess);
        EXPECT_TRUE(error == sparclSuccess ||
                    (error == sparclRemoteError && (rank == 1 || is_over)));
        if (i % 50 == 0) wait_a_moment();
      }
      EXPECT_EQ(rank == 0 ? sparclCommAbort(comm) : sparclSuccess, sparclSuccess);
    });
    const sparclResult_t result = broadcast(comm);
    is_over = true;
    watchdog.join();
    sparclResult_t error = sparclSuccess;
    EXPECT_EQ(sparclCommGetAsyncError(comm, &error), sparclSuccess);
    EXPECT_EQ(error, sparclRemoteError);
    int failed = -1;
    EXPECT_EQ(sparclCommGetFailedRank(comm, &failed), sparclSuccess);
    EXPECT_EQ(failed, 0);
    EXPECT_THAT(sparclGetLastError(comm), HasSubstr("sparclCommAbort was called"));
    return result;
  });
  EXPECT_EQ(results[0], sparclRemoteError);
  EXPECT_EQ(results[1], sparclRemoteError);
}

TEST(Threads, ASecondCallIsRefusedAndTheFirstGoesOn) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  std::atomic<bool> may_come{false};
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    if (rank == 1) {
      while (!may_come) wait_a_moment();
      return broadcast(comm);
    }
    std::thread other([&] {
      wait_a_moment();
      wait_a_moment();
      EXPECT_EQ(broadcast(comm), sparclInvalidUsage);
      EXPECT_THAT(sparclGetLastError(nullptr),
                  HasSubstr("another thread is in a call of this communicator"));
      EXPECT_EQ(sparclCommDestroy(comm), sparclInvalidUsage);
      int ranks = 0;
      EXPECT_EQ(sparclCommCount(comm, &ranks), sparclSuccess);
      EXPECT_EQ(ranks, 2);
      may_come = true;
    });
    const sparclResult_t result = broadcast(comm);
    other.join();
    return result;
  });
  for (const sparclResult_t result : results) EXPECT_EQ(result, sparclSuccess);
}

TEST(Threads, OneAfterTheOtherMayUseIt) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  for (int i = 0; i < 3; ++i) {
    for (const sparclResult_t result :
         party.run([](int, sparclComm_t comm) { return broadcast(comm); }))
      EXPECT_EQ(result, sparclSuccess);
  }
}

TEST(Threads, AChildOfForkCannotUseItsParents) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  for (const sparclResult_t result :
       party.run([](int, sparclComm_t comm) { return broadcast(comm); }))
    ASSERT_EQ(result, sparclSuccess);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sparclResult_t error = sparclSuccess;
    const bool is_refused = broadcast(party.comm(0)) == sparclInvalidUsage &&
                            sparclCommAbort(party.comm(0)) == sparclInvalidUsage &&
                            sparclCommGetAsyncError(party.comm(0), &error) == sparclInvalidUsage;
    ::_exit(is_refused &&
                    std::string(sparclGetLastError(nullptr)).find("fork()") != std::string::npos
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (const sparclResult_t result :
       party.run([](int, sparclComm_t comm) { return broadcast(comm); }))
    EXPECT_EQ(result, sparclSuccess);
}

TEST(Threads, ARankThatLeavesInOrderIsNotTakenForDead) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    if (rank == 1) return party.destroy(1);
    return broadcast(comm);
  });
  EXPECT_EQ(results[0], sparclRemoteError);
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("has left the communicator"));
}

}  // namespace
}  // namespace sparcl::test
