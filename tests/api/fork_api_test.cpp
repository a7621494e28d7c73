// A process with communicators may fork(): what its child does to its copies is not the parent's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "sparcl/sparcl.h"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

TEST(Fork, AChildThatDestroysItsCopyLeavesTheParentsAlone) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto broadcast = [](int rank, sparclComm_t comm) {
    std::vector<float> weights(100'000, rank == 0 ? 3.0F : 0.0F);
    const sparclResult_t result = sparclBroadcastDelta(weights.data(), nullptr, weights.size(),
                                                       sparclFloat32, 0, nullptr, comm, nullptr);
    EXPECT_EQ(weights[99'999], 3.0F) << "rank " << rank;
    return result;
  };
  for (const sparclResult_t result : party.run(broadcast)) ASSERT_EQ(result, sparclSuccess);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::_exit(sparclCommDestroy(party.comm(0)) == sparclSuccess ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (const sparclResult_t result : party.run(broadcast)) EXPECT_EQ(result, sparclSuccess);
}

}  // namespace
}  // namespace sparcl::test
