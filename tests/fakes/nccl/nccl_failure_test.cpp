// What goes wrong with NCCL: named, on every rank, and nobody waits for good.

#include <cstdlib>
#include <latch>
#include <thread>

#include "src/transport/nccl/nccl_library.hpp"
#include "tests/fakes/nccl/gpu_ranks.hpp"

extern "C" int cuStreamSynchronize(void* stream);

namespace sparcl::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kFailedCount = 1000;

// One sum over all elements but the first, on the device.
struct Sum {
  explicit Sum(int rank) : array(std::vector<float>(kFailedCount, static_cast<float>(rank + 1))) {
    EXPECT_EQ(sparclMaskCreateBlocks(&mask, kFailedCount, 10, 0.5, 1), sparclSuccess);
  }
  ~Sum() { EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess); }
  Sum(const Sum&) = delete;
  sparclResult_t enqueue(sparclComm_t comm, sparclStream_t stream) const {
    return sparclAllReduceMasked(array.get(), array.get(), kFailedCount, sparclFloat32, sparclSum,
                                 mask, nullptr, nullptr, comm, stream);
  }
  OnDevice<float> array;
  sparclMask_t mask = nullptr;
};

sparclResult_t sum_on_host(int rank, sparclComm_t comm) {
  sparclMask_t mask = nullptr;
  EXPECT_EQ(sparclMaskCreateRandom(&mask, kFailedCount, 0.5, 1), sparclSuccess);
  std::vector<float> values(kFailedCount, static_cast<float>(rank));
  const sparclResult_t result =
      sparclAllReduceMasked(values.data(), values.data(), kFailedCount, sparclFloat32, sparclSum,
                            mask, nullptr, nullptr, comm, nullptr);
  sparclMaskDestroy(mask);
  return result;
}

// It cannot be used, is named with what to do, and the comm works on without it.
void expect_no_nccl(const std::string& library, const testing::Matcher<std::string>& text) {
  const Setting path("SPARCL_NCCL_LIBRARY", library);
  ThreadRanks party(2);
  EXPECT_THAT(party.run([](int, sparclComm_t comm) { return sparclCommUseNccl(comm, nullptr); }),
              Each(sparclUnsupported));
  EXPECT_THAT(std::string(sparclGetLastError(party.comm(1))),
              AllOf(HasSubstr("sparclCommUseNccl: rank 0 (host "), HasSubstr("): NCCL: "), text));
  EXPECT_THAT(party.run(sum_on_host), Each(sparclSuccess));
}

using NcclFailure = NcclRanks;

TEST_F(NcclFailure, AMissingLibraryIsNamed) {
  expect_no_nccl("libnot_there.so.2", AllOf(HasSubstr("libnot_there.so.2 cannot be loaded"),
                                            HasSubstr("SPARCL_NCCL_LIBRARY")));
}

TEST_F(NcclFailure, AnOldLibraryIsNamed) {
  expect_no_nccl(SPARCL_FAKE_LIBRARIES "/libold_nccl.so",
                 AllOf(HasSubstr("has version 2.13.4"), HasSubstr("2.14.0 or later is needed")));
}

TEST_F(NcclFailure, ALibraryWithoutItsFunctionsIsNamed) {
  expect_no_nccl(SPARCL_FAKE_LIBRARIES "/libpart_nccl.so",
                 HasSubstr("(version 2.28.9) has no ncclGetUniqueId"));
  expect_no_nccl(SPARCL_FAKE_LIBRARIES "/libno_nccl.so", HasSubstr("does not tell its version"));
}

TEST_F(NcclFailure, AThreadWithoutAGpuIsToldWhatToDo) {
  ThreadRanks party(3);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    forget_gpu(rank == 1);
    return sparclCommUseNccl(comm, nullptr);
  }),
              Each(sparclInvalidUsage));
  EXPECT_THAT(last_error(party, 2),
              AllOf(HasSubstr("rank 1 (host "),
                    HasSubstr("): CUDA: this thread has no GPU yet: choose it by cudaSetDevice")));
  EXPECT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(use_nccl(party), Each(sparclInvalidUsage));
  EXPECT_THAT(last_error(party, 1), HasSubstr("uses NCCL already"));
}

TEST_F(NcclFailure, RanksWithOneGpuAreNamed) {
  ThreadRanks party(3);
  share_gpus(true);
  EXPECT_THAT(use_nccl(party), Each(sparclInvalidUsage));
  share_gpus(false);
  EXPECT_THAT(last_error(party, 2),
              AllOf(HasSubstr("rank 0 (host "), HasSubstr("its GPU 0) and rank 1 (host "),
                    HasSubstr("have the same GPU: let each choose its own by cudaSetDevice")));
  EXPECT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
}

TEST_F(NcclFailure, RanksAgreeOnTheWay) {
  ThreadRanks party(2);
  transport::NcclId ids[2] = {};
  ids[1].internal[127] = 1;
  const auto with_ids = [&](bool alike) {
    return party.run([&, alike](int rank, sparclComm_t comm) {
      sparclNcclOptions_t options = SPARCL_NCCL_OPTIONS_INITIALIZER;
      options.unique_id = &ids[alike ? 0 : rank];
      return sparclCommUseNccl(comm, &options);
    });
  };
  EXPECT_THAT(with_ids(false), Each(sparclMismatch));
  EXPECT_THAT(last_error(party, 0), HasSubstr("rank 0 and rank 1 gave different unique ids"));
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    sparclNcclOptions_t options = SPARCL_NCCL_OPTIONS_INITIALIZER;
    if (rank == 1) options.unique_id = ids;
    return sparclCommUseNccl(comm, &options);
  }),
              Each(sparclMismatch));
  EXPECT_THAT(last_error(party, 0), HasSubstr("rank 0 gave no options, rank 1 a unique id"));
  reset_nccl();
  EXPECT_THAT(with_ids(true), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_EQ(nccl_calls("ncclGetUniqueId"), 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
    return sparclCommStreamSynchronize(comm, stream_of(rank));
  }),
              Each(sparclSuccess));
}

// A caller's NCCL communicator is used, and neither ended nor destroyed.
TEST_F(NcclFailure, ACallersCommunicatorStaysTheCallers) {
  const Result<const transport::NcclLibrary*> nccl = transport::load_nccl();
  ASSERT_TRUE(nccl.ok()) << nccl.status().message();
  transport::NcclId id;
  ASSERT_EQ((*nccl)->get_unique_id(&id), 0);
  transport::NcclLibrary::Comm comms[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    transport::NcclConfig config{sizeof config, 0xcafebeef, 21400, 0};
    ASSERT_EQ((*nccl)->init_rank(&comms[rank], 2, id, rank, &config),
              transport::NcclLibrary::kInProgress);
  }
  {
    ThreadRanks party(2);
    const auto wrap = [&](bool swapped) {
      return party.run([&, swapped](int rank, sparclComm_t comm) {
        sparclNcclOptions_t options = SPARCL_NCCL_OPTIONS_INITIALIZER;
        options.comm = comms[swapped ? 1 - rank : rank];
        return sparclCommUseNccl(comm, &options);
      });
    };
    EXPECT_THAT(wrap(true), Each(sparclInvalidArgument));
    EXPECT_THAT(last_error(party, 1),
                HasSubstr("): the NCCL communicator has this rank as 1 of 2"));
    fail_nccl("ncclCommCuDevice", 1, 3);
    EXPECT_THAT(wrap(false), Each(sparclInvalidArgument));
    EXPECT_THAT(last_error(party, 0),
                HasSubstr("the NCCL communicator is of GPU 3, this thread's is GPU 0"));
    EXPECT_THAT(wrap(false), Each(sparclSuccess)) << last_error(party, 0);
    EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
      const Sum sum(rank);
      EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
      return sparclCommStreamSynchronize(comm, stream_of(rank));
    }),
                Each(sparclSuccess));
  }
  EXPECT_EQ(nccl_comms_alive(), 2);
  EXPECT_EQ(nccl_aborts(), 0);
  for (transport::NcclLibrary::Comm comm : comms) (void)(*nccl)->destroy(comm);
}

TEST_F(NcclFailure, ARankThatNcclRefusesEndsTheComm) {
  ThreadRanks party(3);
  fail_nccl("ncclCommInitRankConfig", 1, 5);
  EXPECT_THAT(use_nccl(party),
              testing::ElementsAre(sparclRemoteError, sparclSystemError, sparclRemoteError));
  EXPECT_THAT(last_error(party, 1),
              AllOf(HasSubstr("rank 1: sparclCommUseNccl: NCCL 2.28.9: ncclCommInitRankConfig: "),
                    HasSubstr("as the test wanted it")));
  EXPECT_THAT(last_error(party, 0), HasSubstr("ncclCommInitRankConfig"));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

TEST_F(NcclFailure, ARankThatDoesNotComeIsADeadline) {
  const Setting soon("SPARCL_TIMEOUT_S", "0.2");
  ThreadRanks party(2);
  hold_init(1);
  for (const sparclResult_t result : use_nccl(party))
    EXPECT_THAT(result, testing::AnyOf(sparclTimeout, sparclRemoteError));
  EXPECT_THAT(last_error(party, 0),
              AllOf(HasSubstr("ncclCommInitRankConfig has not come to an end in 0.2 s")));
  EXPECT_EQ(nccl_comms_alive(), 0) << "aborted";
}

TEST_F(NcclFailure, ACallThatNcclRefusesEndsTheCommAndWhatStreamsHold) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  fail_nccl("ncclAllReduce", 1, 2);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    const sparclResult_t enqueued = sum.enqueue(comm, stream_of(rank));
    if (rank == 1) return enqueued;
    return enqueued == sparclSuccess ? sparclCommStreamSynchronize(comm, stream_of(rank))
                                     : enqueued;
  });
  EXPECT_THAT(results,
              testing::ElementsAre(sparclRemoteError, sparclSystemError, sparclRemoteError));
  EXPECT_THAT(
      last_error(party, 1),
      HasSubstr("NCCL 2.28.9: ncclAllReduce: unhandled system error: as the test wanted it"));
  EXPECT_THAT(last_error(party, 2), HasSubstr("ncclAllReduce"));
  EXPECT_EQ(nccl_comms_alive(), 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    return Sum(rank).enqueue(comm, stream_of(rank));
  }),
              testing::ElementsAre(sparclRemoteError, sparclSystemError, sparclRemoteError));
}

TEST_F(NcclFailure, WhatNcclFindsOutLateIsTold) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  std::atomic<int> enqueued = 0;
  const auto results = party.run([&enqueued](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
    ++enqueued;
    while (enqueued < 2) std::this_thread::yield();
    if (rank == 0) fail_nccl("stream", 0, 6);
    sparclResult_t error = sparclSuccess;
    while (error == sparclSuccess) {
      EXPECT_EQ(sparclCommGetAsyncError(comm, &error), sparclSuccess);
      std::this_thread::yield();
    }
    return error;
  });
  EXPECT_THAT(results, Each(sparclRemoteError));
  EXPECT_THAT(last_error(party, 0), HasSubstr("what streams hold: remote process exited"));
  EXPECT_EQ(nccl_aborts(), 2);
}

// A rank whose GPU never comes to the sum: the others' wait ends, and theirs is ended.
TEST_F(NcclFailure, AWaitThatNeverEndsIsADeadline) {
  const Setting soon("SPARCL_TIMEOUT_S", "0.3");
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  const auto results = party.run([](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
    return rank == 0 ? sparclCommStreamSynchronize(comm, stream_of(rank))
                     : sparclSuccess;  // nobody asks for rank 1's stream
  });
  EXPECT_THAT(results, testing::ElementsAre(sparclTimeout, sparclSuccess));
  EXPECT_THAT(last_error(party, 0), AllOf(HasSubstr("a stream has not come to its end in 0.3 s"),
                                          HasSubstr("SPARCL_TIMEOUT_S")));
  EXPECT_GE(nccl_aborts(), 1);
}

TEST_F(NcclFailure, AbortEndsWhatStreamsHold) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  std::latch enqueued(2);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
    enqueued.arrive_and_wait();
    if (rank == 1) return sparclCommAbort(comm);
    return sparclCommStreamSynchronize(comm, stream_of(rank));
  });
  EXPECT_THAT(results, testing::ElementsAre(sparclRemoteError, sparclSuccess));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

// A rank that waits by CUDA's own means, for one that does not come: a watchdog's thread frees it.
TEST_F(NcclFailure, AWatchdogsAbortEndsAWaitOfCudas) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  std::thread watchdog;
  std::latch enqueued(2);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
    enqueued.arrive_and_wait();
    if (rank == 1) return sparclSuccess;
    watchdog = std::thread([comm] { EXPECT_EQ(sparclCommAbort(comm), sparclSuccess); });
    EXPECT_EQ(cuStreamSynchronize(stream_of(rank)), 0);
    watchdog.join();
    return sum.enqueue(comm, stream_of(rank));
  });
  EXPECT_THAT(results, testing::ElementsAre(sparclRemoteError, sparclSuccess));
  EXPECT_THAT(last_error(party, 0), HasSubstr("sparclCommAbort was called"));
}

// Refusals that all agree on: the comm goes on.
TEST_F(NcclFailure, ArraysOfDifferentKindsAreAMismatch) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    if (rank == 1) return sum.enqueue(comm, stream_of(rank));
    std::vector<float> values(kFailedCount);
    return sparclAllReduceMasked(values.data(), values.data(), kFailedCount, sparclFloat32,
                                 sparclSum, sum.mask, nullptr, nullptr, comm, nullptr);
  }),
              Each(sparclMismatch));
  EXPECT_THAT(last_error(party, 0), AllOf(HasSubstr("arrays in the host's memory"),
                                          HasSubstr("arrays in device memory")));
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    const OnDevice<float> elsewhere(std::vector<float>(kFailedCount), rank);
    return sparclAllReduceMasked(sum.array.get(), elsewhere.get(), kFailedCount, sparclFloat32,
                                 sparclSum, sum.mask, nullptr, nullptr, comm, stream_of(rank));
  }),
              Each(sparclInvalidArgument));
  EXPECT_THAT(last_error(party, 0),
              HasSubstr("recvbuff is in the memory of GPU 1, this communicator's is GPU 0"));
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Sum sum(rank);
    EXPECT_EQ(sum.enqueue(comm, stream_of(rank)), sparclSuccess);
    return sparclCommStreamSynchronize(comm, stream_of(rank));
  }),
              Each(sparclSuccess));
}

TEST_F(NcclFailure, WithoutNcclThereIsNoWaitForStreams) {
  ThreadRanks party(1);
  EXPECT_EQ(sparclCommStreamSynchronize(party.comm(0), nullptr), sparclInvalidUsage);
  EXPECT_EQ(sparclCommUseNccl(nullptr, nullptr), sparclInvalidArgument);
}

}  // namespace
}  // namespace sparcl::test
