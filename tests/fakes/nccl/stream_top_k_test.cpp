// Top-k between GPUs runs in the stream's order: several streams, graphs, and what goes wrong.

#include <latch>

#include "tests/fakes/nccl/top_k_ways.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

using NcclTopKStream = NcclRanks;

// Calls on two streams share memory and a residual: each comes behind the one before, and nobody
// has waited.
TEST_F(NcclTopKStream, CallsOnSeveralStreams) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Way way{sparclFloat32, sparclSum, sparclTopKGlobal};
    const Feedbacks feedbacks(way, 250);
    std::vector<std::vector<float>> expected;
    std::vector<OnDevice<float>> arrays;
    for (int step = 0; step < 5; ++step) {
      const std::vector<float> sent = values_of<float>(sparclFloat32, rank, step, 250);
      expected.push_back(by_host(comm, way, sent, 30, feedbacks.host));
      arrays.emplace_back(sent);
      EXPECT_EQ(on_stream(comm, way, arrays.back(), arrays.back(), 250, 30, feedbacks.device,
                          stream_of(rank, step % 2)),
                sparclSuccess);
    }
    const void* residual = nullptr;
    const sparclResult_t early =
        sparclFeedbackGetResidual(feedbacks.device, &residual, nullptr, nullptr);
    EXPECT_TRUE(early == sparclInvalidUsage || early == sparclSuccess);  // as far as the stream is
    EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank, 0)), sparclSuccess);
    EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank, 1)), sparclSuccess);
    for (std::size_t step = 0; step < 5; ++step)
      EXPECT_TRUE(same_bits(arrays[step].read(), expected[step])) << "step " << step;
    feedbacks.compare_residuals();
    return sparclSuccess;
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// A graph selects what its arrays hold when it is launched, and goes on with the residual as it is.
TEST_F(NcclTopKStream, CallsAreCapturedIntoGraphs) {
  const int before = allocations_alive();
  {
    ThreadRanks party(3);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
      const std::size_t count = 300, k = 40;
      for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
        const Way way{sparclFloat32, sparclSum, mode};
        const Feedbacks feedbacks(way, count);
        const OnDevice<float> from(std::vector<float>(count, 0)), to(std::vector<float>(count, 9));
        const sparclStream_t stream = stream_of(rank, mode);
        begin_capture(stream);
        EXPECT_EQ(on_stream(comm, way, from, to, count, k, feedbacks.device, stream), sparclSuccess)
            << sparclGetLastError(comm);
        const auto graph = end_capture(stream);
        EXPECT_NE(graph, nullptr);
        if (graph == nullptr) return sparclInternalError;
        // Calls in between share nothing with it.
        const OnDevice<float> other(values_of<float>(sparclFloat32, rank, 7, count));
        EXPECT_EQ(on_stream(comm, way, other, other, count, k, nullptr, stream), sparclSuccess);
        EXPECT_EQ(sparclCommStreamSynchronize(comm, stream), sparclSuccess);
        for (int step = 0; step < 3; ++step) {
          const std::vector<float> sent =
              values_of<float>(sparclFloat32, rank, step, count, step == 2);
          const std::vector<float> expected = by_host(comm, way, sent, k, feedbacks.host);
          from.write(sent);
          sparcl::test::launch(*graph, stream);
          EXPECT_EQ(sparclCommStreamSynchronize(comm, stream), sparclSuccess);
          EXPECT_TRUE(same_bits(to.read(), expected)) << "launch " << step;
          feedbacks.compare_residuals();
        }
        // What the graph holds stays where it is.
        std::vector<float> on_host(count);
        EXPECT_EQ(sparclAllReduceTopK(on_host.data(), on_host.data(), count, k, sparclFloat32,
                                      sparclSum, feedbacks.device, nullptr, comm, nullptr),
                  sparclInvalidUsage);
        EXPECT_THAT(sparclGetLastError(comm), HasSubstr("a CUDA graph holds this feedback"));
        EXPECT_EQ(sparclFeedbackReset(feedbacks.device), sparclSuccess);
        EXPECT_EQ(sparclFeedbackReset(feedbacks.host), sparclSuccess);
        feedbacks.compare_residuals();
      }
      return sparclSuccess;
    }),
                Each(sparclSuccess))
        << last_error(party, 0);
  }
  EXPECT_EQ(allocations_alive(), before);
}

// Once the communicator that holds what its graphs use is gone, a feedback is free again.
TEST_F(NcclTopKStream, AFeedbackOutlivesItsGraphs) {
  ThreadRanks party(1);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  const Feedbacks feedbacks({}, 100);
  const std::vector<float> sent = values_of<float>(sparclFloat32, 0, 0, 100);
  std::vector<float> received(100);
  EXPECT_THAT(party.run([&](int, sparclComm_t comm) {
    const OnDevice<float> both(sent);
    begin_capture(stream_of(0));
    EXPECT_EQ(on_stream(comm, {}, both, both, 100, 10, feedbacks.device, stream_of(0)),
              sparclSuccess);
    const auto graph = end_capture(stream_of(0));
    EXPECT_NE(graph, nullptr);
    if (graph != nullptr) launch(*graph, stream_of(0));
    return sparclCommStreamSynchronize(comm, stream_of(0));
  }),
              Each(sparclSuccess));
  EXPECT_EQ(party.destroy(0), sparclSuccess);
  ThreadRanks other(1);
  EXPECT_THAT(other.run([&](int, sparclComm_t comm) {
    (void)by_host(comm, {}, sent, 10, feedbacks.host);
    (void)by_host(comm, {}, sent, 10, feedbacks.host);
    return sparclAllReduceTopK(sent.data(), received.data(), 100, 10, sparclFloat32, sparclSum,
                               feedbacks.device, nullptr, comm, nullptr);
  }),
              Each(sparclSuccess));
  feedbacks.compare_residuals();
}

// A feedback that a stream is not through with.
TEST_F(NcclTopKStream, AFeedbackInAStreamIsNotForTheHostYet) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Feedbacks feedbacks({}, 100);
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    if (rank ==
        0) {  // what it takes of rank 1 comes later: until then no stream of this rank is through
      EXPECT_EQ(on_stream(comm, {}, both, both, 100, 10, feedbacks.device, stream_of(rank)),
                sparclSuccess);
      sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
      const sparclResult_t early = sparclFeedbackStats(feedbacks.device, &stats);
      if (early != sparclSuccess) {
        EXPECT_EQ(early, sparclInvalidUsage);
        EXPECT_THAT(sparclGetLastError(nullptr),
                    HasSubstr("a stream is not through with the last call that has this feedback"));
      }
    } else {
      EXPECT_EQ(on_stream(comm, {}, both, both, 100, 10, feedbacks.device, stream_of(rank)),
                sparclSuccess);
    }
    const sparclResult_t result = sparclCommStreamSynchronize(comm, stream_of(rank));
    (void)by_host(comm, {}, values_of<float>(sparclFloat32, rank, 0, 100), 10, feedbacks.host);
    feedbacks.compare_residuals();
    EXPECT_EQ(Feedbacks::stats_of(feedbacks.device).calls, 1U);
    return result;
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

TEST_F(NcclTopKStream, ArraysOfDifferentKindsAreAMismatch) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  const auto call = [](int rank, sparclComm_t comm, bool is_alike) {
    const OnDevice<float> both(std::vector<float>(100, 1));
    std::vector<float> on_host(100, 1);
    const bool on_gpu = is_alike || rank == 0;
    float* const array = on_gpu ? both.get() : on_host.data();
    const sparclStream_t stream = on_gpu ? stream_of(rank) : nullptr;
    const sparclResult_t result = sparclAllReduceTopK(array, array, 100, 5, sparclFloat32,
                                                      sparclSum, nullptr, nullptr, comm, stream);
    return result == sparclSuccess ? sparclCommStreamSynchronize(comm, stream) : result;
  };
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) { return call(rank, comm, false); }),
              Each(sparclMismatch));
  EXPECT_THAT(last_error(party, 0), testing::AllOf(HasSubstr("arrays in the host's memory"),
                                                   HasSubstr("arrays in device memory")));
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) { return call(rank, comm, true); }),
              Each(sparclSuccess));
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const OnDevice<float> own(std::vector<float>(100, 1)),
        elsewhere(std::vector<float>(100, 1), rank);
    return sparclAllReduceTopK(own.get(), elsewhere.get(), 100, 5, sparclFloat32, sparclSum,
                               nullptr, nullptr, comm, stream_of(rank));
  }),
              Each(sparclInvalidArgument));
  EXPECT_THAT(last_error(party, 0),
              HasSubstr("recvbuff is in the memory of GPU 1, this communicator's is GPU 0"));
}

TEST_F(NcclTopKStream, ACallThatNcclRefusesEndsTheCommAndWhatStreamsHold) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  fail_nccl("ncclAllGather", 1, 2);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    const Feedbacks feedbacks({}, 100);
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    const sparclResult_t enqueued =
        on_stream(comm, {}, both, both, 100, 10, feedbacks.device, stream_of(rank));
    if (rank == 1) return enqueued;
    return enqueued == sparclSuccess ? sparclCommStreamSynchronize(comm, stream_of(rank))
                                     : enqueued;
  });
  EXPECT_THAT(results,
              testing::ElementsAre(sparclRemoteError, sparclSystemError, sparclRemoteError));
  EXPECT_THAT(
      last_error(party, 1),
      HasSubstr("NCCL 2.28.9: ncclAllGather: unhandled system error: as the test wanted it"));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

// A rank whose GPU never comes to the exchange.
TEST_F(NcclTopKStream, AWaitThatNeverEndsIsADeadline) {
  setenv("SPARCL_TIMEOUT_S", "0.3", 1);
  ThreadRanks party(2);
  unsetenv("SPARCL_TIMEOUT_S");
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    EXPECT_EQ(on_stream(comm, {}, both, both, 100, 10, nullptr, stream_of(rank)), sparclSuccess);
    return rank == 0 ? sparclCommStreamSynchronize(comm, stream_of(rank))
                     : sparclSuccess;  // nobody asks for rank 1's stream
  }),
              testing::ElementsAre(sparclTimeout, sparclSuccess));
  EXPECT_THAT(last_error(party, 0), HasSubstr("a stream has not come to its end in 0.3 s"));
  EXPECT_GE(nccl_aborts(), 1);
}

TEST_F(NcclTopKStream, AbortEndsWhatStreamsHold) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  std::latch enqueued(2);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const Way way{sparclFloat32, sparclSum, sparclTopKSelected};
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    EXPECT_EQ(on_stream(comm, way, both, both, 100, 10, nullptr, stream_of(rank)), sparclSuccess);
    enqueued.arrive_and_wait();
    return rank == 1 ? sparclCommAbort(comm) : sparclCommStreamSynchronize(comm, stream_of(rank));
  }),
              testing::ElementsAre(sparclRemoteError, sparclSuccess));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

}  // namespace
}  // namespace sparcl::test
