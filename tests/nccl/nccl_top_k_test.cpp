// Top-k between GPUs gives what it gives by way of the host, bit for bit, and runs in the stream's order.

#include "tests/nccl/top_k_ways.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

using NcclTopK = NcclRanks;

std::string algorithm_of(sparclComm_t comm) {
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
  return report.algorithm;
}

template <class T>
std::vector<T> by_host(sparclComm_t comm, const Way& way, const std::vector<T>& sent, std::size_t k, sparclFeedback_t feedback,
                       int determinism = 0) {
  sparclTopKOptions_t options = options_of(way);
  options.determinism = determinism;
  std::vector<T> received(sent.size(), T{9});
  EXPECT_EQ(
      sparclAllReduceTopKEx(sent.data(), received.data(), sent.size(), k, way.type, way.op, feedback, &options, comm, nullptr),
      sparclSuccess)
      << sparclGetLastError(comm);
  return received;
}

template <class T>
sparclResult_t on_stream(sparclComm_t comm, const Way& way, const OnDevice<T>& from, const OnDevice<T>& to, std::size_t count,
                         std::size_t k, sparclFeedback_t feedback, sparclStream_t stream, int determinism = 0) {
  sparclTopKOptions_t options = options_of(way);
  options.determinism = determinism;
  return sparclAllReduceTopKEx(from.get(), to.get(), count, k, way.type, way.op, feedback, &options, comm, stream);
}

// Some calls in a row, by both ways; those on the stream are waited for in the end.
template <class T>
sparclResult_t compare(int rank, sparclComm_t comm, const Way& way, std::size_t count, std::size_t k, int steps,
                       bool is_special = false, const std::string& algorithm = "nccl") {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ", type " << way.type << ", op " << way.op << ", mode " << way.mode
                                  << ", wire " << way.wire << ", feedback " << way.has_feedback << way.residual << ", count "
                                  << count << ", k " << k);
  const Feedbacks feedbacks(way, count);
  std::vector<std::vector<T>> expected;
  std::vector<OnDevice<T>> from, to;
  for (int step = 0; step < steps; ++step) {
    const std::vector<T> sent = values_of<T>(way.type, rank, step, count, is_special);
    expected.push_back(by_host(comm, way, sent, k, feedbacks.host));
    from.emplace_back(sent);
    to.emplace_back(std::vector<T>(count, T{9}));
    const sparclResult_t result = on_stream(comm, way, from.back(), to.back(), count, k, feedbacks.device, stream_of(rank));
    if (result != sparclSuccess) return result;
    EXPECT_EQ(algorithm_of(comm) == "nccl", algorithm == "nccl");
  }
  const sparclResult_t result = sparclCommStreamSynchronize(comm, stream_of(rank));
  for (std::size_t step = 0; step < expected.size(); ++step)
    EXPECT_TRUE(same_bits(to[step].read(), expected[step])) << "step " << step;
  if (result == sparclSuccess) feedbacks.compare_residuals();
  return result;
}

TEST_F(NcclTopK, OfAnyRanksAndMode) {
  const int before = allocations_alive();
  for (const int ranks : kRankCounts) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    ThreadRanks party(ranks);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      const std::size_t k = 600 / static_cast<std::size_t>(ranks * ranks) + 1;
      std::vector<sparclResult_t> results;
      for (const int mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal})
        results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 350, k, 2));
      return *std::ranges::max_element(results);
    }),
                Each(sparclSuccess))
        << last_error(party, 0);
  }
  EXPECT_EQ(allocations_alive(), before);
  EXPECT_EQ(nccl_comms_alive(), 0);
  EXPECT_EQ(nccl_aborts(), 0);
}

TEST_F(NcclTopK, OfEachModeWireAndResidual) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    int turn = 0;
    std::vector<sparclResult_t> results;
    for (const int mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
      for (const int wire : {0, 1}) {
        for (const int feedback : {-1, static_cast<int>(sparclResidualSent), static_cast<int>(sparclResidualMean)}) {
          const Way way{sparclFloat32, turn++ % 2 == 0 ? sparclSum : sparclAvg,     mode, wire,
                        feedback >= 0, feedback < 0 ? sparclResidualSent : feedback};
          results.push_back(compare<float>(rank, comm, way, 400, 60, 2, turn % 3 == 0));
        }
      }
    }
    return *std::ranges::max_element(results);
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

TEST_F(NcclTopK, OfEachTypeAndSpecialNumbers) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    std::vector<sparclResult_t> results;
    for (const int mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
      const auto way = [&](sparclDataType_t type, int residual = sparclResidualSent) {
        return Way{type, mode == sparclTopKUnion ? sparclAvg : sparclSum, mode, 0, true, residual};
      };
      results.push_back(compare<std::uint16_t>(rank, comm, way(sparclFloat16, sparclResidualMean), 300, 50, 2, true));
      results.push_back(compare<std::uint16_t>(rank, comm, way(sparclBfloat16), 300, 50, 2, true));
      results.push_back(compare<std::uint8_t>(rank, comm, way(sparclFloat8e4m3), 300, 50, 2));
      results.push_back(compare<std::uint8_t>(rank, comm, way(sparclFloat8e5m2), 300, 50, 2));
      results.push_back(compare<double>(rank, comm, way(sparclFloat64), 300, 50, 2, true));
      results.push_back(compare<double>(rank, comm, way(sparclFloat64, sparclResidualMean), 300, 50, 2));
      results.push_back(compare<std::int32_t>(rank, comm, way(sparclInt32), 300, 50, 2, true));
      results.push_back(compare<std::uint32_t>(rank, comm, way(sparclUint32), 300, 50, 2, true));
      results.push_back(compare<std::int64_t>(rank, comm, way(sparclInt64), 300, 50, 2, true));
      // Of uint64 the largest sums are found by way of the host.
      results.push_back(
          compare<std::uint64_t>(rank, comm, way(sparclUint64), 300, 50, 1, true, mode == sparclTopKGlobal ? "another" : "nccl"));
    }
    return *std::ranges::max_element(results);
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// Sums that are zero are kept like others: what is sent of them is settled.
TEST_F(NcclTopK, WhatCancelsOutIsStillKept) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    for (const int mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
      const Way way{sparclFloat32, sparclSum, mode};
      const Feedbacks feedbacks(way, 12);
      std::vector<float> sent(12, 0.25F);
      for (std::size_t i = 0; i < 8; ++i) sent[i] = (rank == 0 ? 1.0F : -1.0F) * static_cast<float>(10 - i);
      const std::vector<float> expected = by_host(comm, way, sent, 6, feedbacks.host);
      const OnDevice<float> both(sent);
      EXPECT_EQ(on_stream(comm, way, both, both, 12, 6, feedbacks.device, stream_of(rank)), sparclSuccess);
      EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank)), sparclSuccess);
      EXPECT_EQ(both.read(), expected);
      feedbacks.compare_residuals();
    }
    return sparclSuccess;
  }),
              Each(sparclSuccess));
}

TEST_F(NcclTopK, OfAnyK) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    std::vector<sparclResult_t> results;
    for (const int mode : {sparclTopKSelected, sparclTopKGlobal}) {
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 200, 0, 2));
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 200, 1, 2));
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 200, 300, 2));
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 1, 1, 2));
    }
    results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKUnion}, 200, 0, 2));
    results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKSelected}, 40'000, 3000, 1));
    return *std::ranges::max_element(results);
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// Where bits need not be the tree's NCCL sums the union's values: the same on every rank, and exact where sums are.
TEST_F(NcclTopK, RunsAreReduced) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  std::vector<std::vector<float>> inexact(3);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const Way way{sparclInt32, sparclAvg};
    const std::vector<std::int32_t> sent = values_of<std::int32_t>(sparclInt32, rank, 0, 300);
    const std::vector<std::int32_t> expected = by_host(comm, way, sent, 290, nullptr, sparclDeterminismRuns);
    const OnDevice<std::int32_t> from(sent), to(sent);
    EXPECT_EQ(on_stream(comm, way, from, to, 300, 290, nullptr, stream_of(rank), sparclDeterminismRuns), sparclSuccess);
    const Way floats{sparclFloat32, sparclSum};
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 300));
    EXPECT_EQ(on_stream(comm, floats, both, both, 300, 40, nullptr, stream_of(rank), sparclDeterminismRuns), sparclSuccess);
    const sparclResult_t result = sparclCommStreamSynchronize(comm, stream_of(rank));
    EXPECT_EQ(to.read(), expected);
    inexact[static_cast<std::size_t>(rank)] = both.read();
    return result;
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
  EXPECT_EQ(nccl_calls("ncclAllReduce"), 6);
  EXPECT_TRUE(same_bits(inexact[1], inexact[0]) && same_bits(inexact[2], inexact[0]));
}

TEST_F(NcclTopK, WhatGoesByWayOfTheHost) {
  ThreadRanks party(4);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    std::vector<sparclResult_t> results{
        compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKSelected, 2}, 300, 40, 1, false, "another"),
        compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKUnion, 0, true, 0, {100, 200}}, 300, 40, 1, false,
                       "another"),
        compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKUnion}, 300, 200, 1, false,
                       "another")};  // 4 times 300 values
    return *std::ranges::max_element(results);
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
  EXPECT_EQ(nccl_calls("ncclAllGather"), 0);
}

// Calls on two streams share memory and a residual: each comes behind the one before, and nobody has waited.
TEST_F(NcclTopK, CallsOnSeveralStreams) {
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
      EXPECT_EQ(on_stream(comm, way, arrays.back(), arrays.back(), 250, 30, feedbacks.device, stream_of(rank, step % 2)),
                sparclSuccess);
    }
    const void* residual = nullptr;
    const sparclResult_t early = sparclFeedbackGetResidual(feedbacks.device, &residual, nullptr, nullptr);
    EXPECT_TRUE(early == sparclInvalidUsage || early == sparclSuccess);  // as far as the stream is
    EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank, 0)), sparclSuccess);
    EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank, 1)), sparclSuccess);
    for (std::size_t step = 0; step < 5; ++step) EXPECT_TRUE(same_bits(arrays[step].read(), expected[step])) << "step " << step;
    feedbacks.compare_residuals();
    return sparclSuccess;
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// A graph selects what its arrays hold when it is launched, and goes on with the residual as it is.
TEST_F(NcclTopK, CallsAreCapturedIntoGraphs) {
  const int before = allocations_alive();
  {
    ThreadRanks party(3);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
      const std::size_t count = 300, k = 40;
      for (const int mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
        const Way way{sparclFloat32, sparclSum, mode};
        const Feedbacks feedbacks(way, count);
        const OnDevice<float> from(std::vector<float>(count, 0)), to(std::vector<float>(count, 9));
        const sparclStream_t stream = stream_of(rank, mode);
        begin_capture(stream);
        EXPECT_EQ(on_stream(comm, way, from, to, count, k, feedbacks.device, stream), sparclSuccess) << sparclGetLastError(comm);
        const auto graph = end_capture(stream);
        EXPECT_NE(graph, nullptr);
        if (graph == nullptr) return sparclInternalError;
        // Calls in between share nothing with it.
        const OnDevice<float> other(values_of<float>(sparclFloat32, rank, 7, count));
        EXPECT_EQ(on_stream(comm, way, other, other, count, k, nullptr, stream), sparclSuccess);
        EXPECT_EQ(sparclCommStreamSynchronize(comm, stream), sparclSuccess);
        for (int step = 0; step < 3; ++step) {
          const std::vector<float> sent = values_of<float>(sparclFloat32, rank, step, count, step == 2);
          const std::vector<float> expected = by_host(comm, way, sent, k, feedbacks.host);
          from.write(sent);
          sparcl::test::launch(*graph, stream);
          EXPECT_EQ(sparclCommStreamSynchronize(comm, stream), sparclSuccess);
          EXPECT_TRUE(same_bits(to.read(), expected)) << "launch " << step;
          feedbacks.compare_residuals();
        }
        // What the graph holds stays where it is.
        std::vector<float> on_host(count);
        EXPECT_EQ(sparclAllReduceTopK(on_host.data(), on_host.data(), count, k, sparclFloat32, sparclSum, feedbacks.device, comm,
                                      nullptr),
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

// A feedback that a stream is not through with.
TEST_F(NcclTopK, AFeedbackInAStreamIsNotForTheHostYet) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Feedbacks feedbacks({}, 100);
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    if (rank == 0) {  // what it takes of rank 1 comes later: until then no stream of this rank is through
      EXPECT_EQ(on_stream(comm, {}, both, both, 100, 10, feedbacks.device, stream_of(rank)), sparclSuccess);
      sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
      const sparclResult_t early = sparclFeedbackStats(feedbacks.device, &stats);
      if (early != sparclSuccess) {
        EXPECT_EQ(early, sparclInvalidUsage);
        EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("a stream is not through with the last call that has this feedback"));
      }
    } else {
      EXPECT_EQ(on_stream(comm, {}, both, both, 100, 10, feedbacks.device, stream_of(rank)), sparclSuccess);
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

TEST_F(NcclTopK, ArraysOfDifferentKindsAreAMismatch) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  const auto call = [](int rank, sparclComm_t comm, bool is_alike) {
    const OnDevice<float> both(std::vector<float>(100, 1));
    std::vector<float> on_host(100, 1);
    const bool on_gpu = is_alike || rank == 0;
    float* const array = on_gpu ? both.get() : on_host.data();
    const sparclStream_t stream = on_gpu ? stream_of(rank) : nullptr;
    const sparclResult_t result = sparclAllReduceTopK(array, array, 100, 5, sparclFloat32, sparclSum, nullptr, comm, stream);
    return result == sparclSuccess ? sparclCommStreamSynchronize(comm, stream) : result;
  };
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) { return call(rank, comm, false); }), Each(sparclMismatch));
  EXPECT_THAT(last_error(party, 0), testing::AllOf(HasSubstr("arrays in the host's memory"), HasSubstr("arrays in device memory")));
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) { return call(rank, comm, true); }), Each(sparclSuccess));
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const OnDevice<float> own(std::vector<float>(100, 1)), elsewhere(std::vector<float>(100, 1), rank);
    return sparclAllReduceTopK(own.get(), elsewhere.get(), 100, 5, sparclFloat32, sparclSum, nullptr, comm, stream_of(rank));
  }),
              Each(sparclInvalidArgument));
  EXPECT_THAT(last_error(party, 0), HasSubstr("recvbuff is in the memory of GPU 1, this communicator's is GPU 0"));
}

TEST_F(NcclTopK, ACallThatNcclRefusesEndsTheCommAndWhatStreamsHold) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  fail_nccl("ncclAllGather", 1, 2);
  const auto results = party.run([](int rank, sparclComm_t comm) {
    const Feedbacks feedbacks({}, 100);
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    const sparclResult_t enqueued = on_stream(comm, {}, both, both, 100, 10, feedbacks.device, stream_of(rank));
    if (rank == 1) return enqueued;
    return enqueued == sparclSuccess ? sparclCommStreamSynchronize(comm, stream_of(rank)) : enqueued;
  });
  EXPECT_THAT(results, testing::ElementsAre(sparclRemoteError, sparclSystemError, sparclRemoteError));
  EXPECT_THAT(last_error(party, 1), HasSubstr("NCCL 2.28.9: ncclAllGather: unhandled system error: as the test wanted it"));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

// A rank whose GPU never comes to the exchange.
TEST_F(NcclTopK, AWaitThatNeverEndsIsADeadline) {
  setenv("SPARCL_TIMEOUT_S", "0.3", 1);
  ThreadRanks party(2);
  unsetenv("SPARCL_TIMEOUT_S");
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    EXPECT_EQ(on_stream(comm, {}, both, both, 100, 10, nullptr, stream_of(rank)), sparclSuccess);
    return rank == 0 ? sparclCommStreamSynchronize(comm, stream_of(rank)) : sparclSuccess;  // nobody asks for rank 1's stream
  }),
              testing::ElementsAre(sparclTimeout, sparclSuccess));
  EXPECT_THAT(last_error(party, 0), HasSubstr("a stream has not come to its end in 0.3 s"));
  EXPECT_GE(nccl_aborts(), 1);
}

TEST_F(NcclTopK, AbortEndsWhatStreamsHold) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    const Way way{sparclFloat32, sparclSum, sparclTopKSelected};
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 100));
    EXPECT_EQ(on_stream(comm, way, both, both, 100, 10, nullptr, stream_of(rank)), sparclSuccess);
    return rank == 1 ? sparclCommAbort(comm) : sparclCommStreamSynchronize(comm, stream_of(rank));
  }),
              testing::ElementsAre(sparclRemoteError, sparclSuccess));
  EXPECT_EQ(nccl_comms_alive(), 0);
}

}  // namespace
}  // namespace sparcl::test
