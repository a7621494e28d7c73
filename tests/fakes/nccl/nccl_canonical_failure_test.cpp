// What goes wrong in canonical sums between GPUs: named, on every rank, nobody waits for good, and
// no group of NCCL's stays open.

#include <latch>

#include "tests/fakes/nccl/gpu_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kBrokenCount = 3'000;
constexpr int kSystemErrorOfNccl = 2, kRemoteErrorOfNccl = 6;

// One sum, by pieces.
struct PieceSum {
  explicit PieceSum(int rank)
      : array(std::vector<float>(kBrokenCount, static_cast<float>(rank + 1))) {
    EXPECT_EQ(sparclMaskCreateBlocks(&mask, kBrokenCount, 10, 0.5, 1), sparclSuccess);
  }
  ~PieceSum() { EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess); }
  PieceSum(const PieceSum&) = delete;
  sparclResult_t enqueue(sparclComm_t comm, sparclStream_t stream) const {
    return sparclAllReduceMasked(array.get(), array.get(), kBrokenCount, sparclFloat32, sparclSum,
                                 mask, nullptr, nullptr, comm, stream);
  }
  OnDevice<float> array;
  sparclMask_t mask = nullptr;
};

class CanonicalFailure : public NcclRanks {
 protected:
  ~CanonicalFailure() override { EXPECT_EQ(nccl_open_groups(), 0); }

  // Each rank waits for its sum, where it got that far.
  static std::vector<sparclResult_t> sum(ThreadRanks& party, int stream = 0) {
    return party.run([stream](int rank, sparclComm_t comm) {
      const PieceSum sum(rank);
      const sparclResult_t enqueued = sum.enqueue(comm, stream_of(rank, stream));
      return enqueued == sparclSuccess ? sparclCommStreamSynchronize(comm, stream_of(rank, stream))
                                       : enqueued;
    });
  }

 private:
  Setting canonical_{"SPARCL_DETERMINISM", "canonical"}, way_{"SPARCL_ALGO_ALLREDUCE", "owner"};
};

// At once (sends and receives of a group, and the group itself), or when the call is through on the
// host.
TEST_F(CanonicalFailure, ACallThatNcclRefusesEndsTheCommAndWhatStreamsHold) {
  int stream = 0;
  for (const char* const function : {"ncclSend", "ncclRecv", "ncclGroupEnd", "ncclAllGather"}) {
    SCOPED_TRACE(function);
    reset_nccl();
    ThreadRanks party(3);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
    fail_nccl(function, 1, kSystemErrorOfNccl);
    EXPECT_THAT(sum(party, stream++),
                testing::ElementsAre(sparclRemoteError, sparclSystemError, sparclRemoteError));
    EXPECT_THAT(last_error(party, 1),
                HasSubstr(std::string("NCCL 2.28.9: ") + function + ": unhandled system error"));
    EXPECT_THAT(last_error(party, 2), HasSubstr(function));
    EXPECT_EQ(nccl_comms_alive(), 0);
    EXPECT_EQ(nccl_open_groups(), 0);
    EXPECT_THAT(sum(party, stream++),
                testing::ElementsAre(sparclRemoteError, sparclSystemError, sparclRemoteError));
  }
}

TEST_F(CanonicalFailure, AGroupThatDoesNotBegin) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  fail_nccl("ncclGroupStart", 0, kSystemErrorOfNccl);  // of the first rank that comes there
  const auto results = sum(party);
  EXPECT_EQ(std::ranges::count(results, sparclSystemError), 1);
  EXPECT_EQ(std::ranges::count(results, sparclRemoteError), 2);
  EXPECT_THAT(last_error(party, 0), HasSubstr("ncclGroupStart"));
}

TEST_F(CanonicalFailure, WhatNcclFindsOutLateIsTold) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  hold_collectives(1);
  fail_nccl("stream", 0, kRemoteErrorOfNccl);
  EXPECT_THAT(sum(party), Each(sparclRemoteError));
  EXPECT_THAT(last_error(party, 0), HasSubstr("remote process exited"));
  EXPECT_EQ(nccl_aborts(), 2);
}

// A rank whose GPU never comes to the exchange: the others' wait ends, and theirs is ended.
TEST_F(CanonicalFailure, AWaitThatNeverEndsIsADeadline) {
  const Setting soon("SPARCL_TIMEOUT_S", "0.3");
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  hold_collectives(1);
  EXPECT_THAT(sum(party), Each(AnyOf(sparclTimeout, sparclRemoteError)));
  EXPECT_THAT(last_error(party, 0), HasSubstr("a stream has not come to its end in 0.3 s"));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

// NCCL connects ranks at the first group, on the host: one that does not come to an end there.
TEST_F(CanonicalFailure, AGroupThatNeverEndsIsADeadline) {
  const Setting soon("SPARCL_TIMEOUT_S", "0.3");
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  hold_calls(1);
  EXPECT_THAT(sum(party), Each(AnyOf(sparclTimeout, sparclRemoteError)));
  EXPECT_THAT(last_error(party, 1), AnyOf(HasSubstr("ncclGroupEnd has not come to an end in 0.3 s"),
                                          HasSubstr("a stream has not")));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

TEST_F(CanonicalFailure, AbortEndsWhatStreamsHold) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  hold_collectives(1);
  std::latch enqueued(3);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const PieceSum sum(rank);
    EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
    enqueued.arrive_and_wait();
    if (rank == 1) return sparclCommAbort(comm);
    return sparclCommStreamSynchronize(comm, stream_of(rank));
  });
  EXPECT_THAT(results, testing::ElementsAre(sparclRemoteError, sparclSuccess, sparclRemoteError));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

// Without memory all ranks hear of it, and go on.
TEST_F(CanonicalFailure, AGpuWithoutMemoryIsARefusal) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  fail_allocations(true);
  EXPECT_THAT(sum(party), Each(sparclOutOfMemory)) << last_error(party, 0);
  fail_allocations(false);
  EXPECT_THAT(sum(party, 1), Each(sparclSuccess)) << last_error(party, 0);
}

// Wherever a launch fails: an error of that rank, and the others' end.
TEST_F(CanonicalFailure, LaunchesThatFail) {
  bool has_succeeded = false;
  for (int failing = 0; !has_succeeded && failing < 20; ++failing) {
    SCOPED_TRACE(testing::Message() << "from launch " << failing);
    reset_nccl();
    ThreadRanks party(2);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
    fail_launches_from(failing);
    const auto results = sum(party, failing);
    fail_launches_from(-1);
    has_succeeded = results[0] == sparclSuccess && results[1] == sparclSuccess;
    if (has_succeeded) break;
    EXPECT_THAT(results, Each(AnyOf(sparclSystemError, sparclRemoteError)));
    EXPECT_THAT(last_error(party, 0), HasSubstr("CUDA: "));
    EXPECT_EQ(nccl_comms_alive(), 0);
  }
  EXPECT_TRUE(has_succeeded);
}

}  // namespace
}  // namespace sparcl::test
