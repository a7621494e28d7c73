// sparclCommShrink among threads: its errors everywhere; what it makes, where the transport is ucx
// (api.ucx.*).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

bool is_ucx() { return std::getenv("SPARCL_TEST_UNIQUE_ID") != nullptr; }

sparclResult_t broadcast(sparclComm_t comm, std::vector<float>& weights, int root) {
  return sparclBroadcastDelta(weights.data(), nullptr, weights.size(), sparclFloat32, root, nullptr,
                              comm, nullptr);
}

TEST(CommShrink, NullsAreRefused) {
  ThreadRanks party(1);
  sparclComm_t survivors = nullptr;
  EXPECT_EQ(sparclCommShrink(nullptr, &survivors), sparclInvalidArgument);
  EXPECT_EQ(sparclCommShrink(party.comm(0), nullptr), sparclInvalidArgument);
}

TEST(CommShrink, ThreadsOfOneProcessDieTogether) {
  if (is_ucx()) GTEST_SKIP() << "of the loopback transport";
  ThreadRanks party(2);
  sparclComm_t survivors = nullptr;
  EXPECT_EQ(sparclCommShrink(party.comm(0), &survivors), sparclUnsupported);
  EXPECT_EQ(survivors, nullptr);
  EXPECT_THAT(sparclGetLastError(party.comm(0)),
              AllOf(HasSubstr("loopback"), HasSubstr("SPARCL_TRANSPORT=ucx")));
}

// One gives up, one destroys its communicator, the others go on.
TEST(CommShrink, ThoseWhoAreThereGoOn) {
  if (!is_ucx()) GTEST_SKIP() << "loopback does not shrink: api.ucx.* run this";
  constexpr int kRanks = 4, kLeaves = 1, kAborts = 2;
  ThreadRanks party(kRanks);
  ASSERT_EQ(party.created(), sparclSuccess);
  std::vector<int> sizes(kRanks, -1), ranks(kRanks, -1);
  const auto program = [&](int rank, sparclComm_t comm) {
    if (rank == kLeaves) return party.destroy(rank);
    if (rank == kAborts) (void)sparclCommAbort(comm);
    sparclComm_t survivors = nullptr;
    if (const sparclResult_t result = sparclCommShrink(comm, &survivors); result != sparclSuccess)
      return result;
    auto at = static_cast<std::size_t>(rank);
    (void)sparclCommCount(survivors, &sizes[at]);
    (void)sparclCommUserRank(survivors, &ranks[at]);
    std::vector<float> weights(1000, 1.0f);
    if (ranks[at] == 2) weights[7] = 42;
    const sparclResult_t result = broadcast(survivors, weights, 2);
    EXPECT_EQ(weights[7], 42) << "rank " << rank;
    sparclComm_t again = nullptr;
    EXPECT_EQ(sparclCommShrink(comm, &again), sparclInvalidUsage) << "a second time";
    EXPECT_EQ(broadcast(comm, weights, 0), sparclRemoteError)
        << "the old communicator stays poisoned";
    (void)sparclCommDestroy(survivors);
    return result;
  };
  EXPECT_THAT(party.run(program), Each(sparclSuccess));
  EXPECT_THAT(sizes, testing::ElementsAre(3, -1, 3, 3));
  EXPECT_THAT(ranks, testing::ElementsAre(0, -1, 1, 2));
}

TEST(CommShrink, WhoHasRequestsInFlightMustEndThemFirst) {
  if (!is_ucx()) GTEST_SKIP() << "loopback does not shrink: api.ucx.* run this";
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto program = [&](int, sparclComm_t comm) {
    std::vector<float> weights(100, 1.0f);
    sparclRequest_t request = nullptr;
    EXPECT_EQ(sparclIBroadcastDelta(weights.data(), nullptr, weights.size(), sparclFloat32, 0,
                                    nullptr, comm, nullptr, &request),
              sparclSuccess);
    sparclComm_t survivors = nullptr;
    EXPECT_EQ(sparclCommShrink(comm, &survivors), sparclInvalidUsage);
    return sparclWait(&request, nullptr);
  };
  EXPECT_THAT(party.run(program), Each(sparclSuccess)) << "the communicator is sound still";
}

TEST(CommShrink, RequestsOfTheFailedCommMayOutliveIt) {
  if (!is_ucx()) GTEST_SKIP() << "loopback does not shrink: api.ucx.* run this";
  constexpr int kRanks = 3, kLeaves = 1;
  ThreadRanks party(kRanks);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto program = [&](int rank, sparclComm_t given) {
    if (rank == kLeaves) return party.destroy(rank);
    party.give_up(rank);
    Comm comm(given);
    std::vector<float> weights(1000, 1.0f), others(1000, 2.0f);
    Request first = comm.start_broadcast_delta(weights, {}, 0),
            second = comm.start_broadcast_delta(others, {}, 0);
    try {
      first.wait();
      ADD_FAILURE() << "rank 1 has left";
    } catch (const Error& error) {
      EXPECT_EQ(error.result(), sparclRemoteError) << error.what();
      comm = comm.shrink();
    }
    EXPECT_EQ(comm.size(), 2);
    EXPECT_THROW(second.wait(), Error);
    comm.broadcast_delta(weights, {}, 0);
    return sparclSuccess;
  };
  EXPECT_THAT(party.run(program), Each(sparclSuccess));
}

}  // namespace
}  // namespace sparcl::test
