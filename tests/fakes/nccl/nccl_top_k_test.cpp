// Top-k between GPUs gives what it gives by way of the host, bit for bit, and runs in the stream's
// order.

#include <algorithm>

#include "tests/fakes/nccl/top_k_ways.hpp"

namespace sparcl::test {
namespace {

using testing::Each;

using NcclTopK = NcclRanks;

// Some calls in a row, by both ways; those on the stream are waited for in the end.
template <class T>
sparclResult_t compare(int rank, sparclComm_t comm, const Way& way, std::size_t count,
                       std::size_t k, int steps, bool is_special = false,
                       const std::string& algorithm = "nccl") {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ", type " << way.type << ", op " << way.op
                                  << ", mode " << way.mode << ", wire " << way.wire << ", feedback "
                                  << way.has_feedback << way.residual << ", count " << count
                                  << ", k " << k);
  const Feedbacks feedbacks(way, count);
  std::vector<std::vector<T>> expected;
  std::vector<OnDevice<T>> from, to;
  for (int step = 0; step < steps; ++step) {
    const std::vector<T> sent = values_of<T>(way.type, rank, step, count, is_special);
    expected.push_back(by_host(comm, way, sent, k, feedbacks.host));
    from.emplace_back(sent);
    to.emplace_back(std::vector<T>(count, T{9}));
    const sparclResult_t result =
        on_stream(comm, way, from.back(), to.back(), count, k, feedbacks.device, stream_of(rank));
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
      const std::size_t k =
          std::min<std::size_t>(600 / static_cast<std::size_t>(ranks * ranks) + 1, 350);
      std::vector<sparclResult_t> results;
      for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal})
        results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 350, k,
                                         ranks > 4 ? 1 : 2));
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
    for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
      for (const sparclWire_t wire :
           {sparclWireSame, sparclWireBfloat16, sparclWireInt8, sparclWireInt4, sparclWireInt2}) {
        for (const int feedback :
             {-1, static_cast<int>(sparclResidualSent), static_cast<int>(sparclResidualMean)}) {
          if (wire > sparclWireInt8 && feedback != static_cast<int>(sparclResidualSent)) continue;
          const Way way{sparclFloat32, turn++ % 2 == 0 ? sparclSum : sparclAvg,
                        mode,          wire,
                        feedback >= 0, static_cast<sparclResidual_t>(feedback < 0 ? 0 : feedback)};
          results.push_back(compare<float>(rank, comm, way, 400, 60, 2, turn % 3 == 0));
          if (wire == 2)
            results.push_back(compare<std::uint16_t>(
                rank, comm, {sparclFloat16, sparclSum, mode, wire}, 700, 140, 1, true));
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
    for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
      const auto way = [&](sparclDataType_t type, sparclResidual_t residual = sparclResidualSent) {
        return Way{type, mode == sparclTopKUnion ? sparclAvg : sparclSum,
                   mode, sparclWireSame,
                   true, residual};
      };
      results.push_back(compare<std::uint16_t>(rank, comm, way(sparclFloat16, sparclResidualMean),
                                               300, 50, 2, true));
      results.push_back(compare<std::uint16_t>(rank, comm, way(sparclBfloat16), 300, 50, 2, true));
      results.push_back(compare<std::uint8_t>(rank, comm, way(sparclFloat8e4m3), 300, 50, 2));
      results.push_back(compare<std::uint8_t>(rank, comm, way(sparclFloat8e5m2), 300, 50, 2));
      results.push_back(compare<double>(rank, comm, way(sparclFloat64), 300, 50, 2, true));
      results.push_back(
          compare<double>(rank, comm, way(sparclFloat64, sparclResidualMean), 300, 50, 2));
      results.push_back(compare<std::int32_t>(rank, comm, way(sparclInt32), 300, 50, 2, true));
      results.push_back(compare<std::uint32_t>(rank, comm, way(sparclUint32), 300, 50, 2, true));
      results.push_back(compare<std::int64_t>(rank, comm, way(sparclInt64), 300, 50, 2, true));
      // Of uint64 the largest sums are found by way of the host.
      results.push_back(compare<std::uint64_t>(rank, comm, way(sparclUint64), 300, 50, 1, true,
                                               mode == sparclTopKGlobal ? "another" : "nccl"));
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
    for (const sparclTopKMode_t mode : {sparclTopKUnion, sparclTopKSelected, sparclTopKGlobal}) {
      const Way way{sparclFloat32, sparclSum, mode};
      const Feedbacks feedbacks(way, 12);
      std::vector<float> sent(12, 0.25F);
      for (std::size_t i = 0; i < 8; ++i)
        sent[i] = (rank == 0 ? 1.0F : -1.0F) * static_cast<float>(10 - i);
      const std::vector<float> expected = by_host(comm, way, sent, 6, feedbacks.host);
      const OnDevice<float> both(sent);
      EXPECT_EQ(on_stream(comm, way, both, both, 12, 6, feedbacks.device, stream_of(rank)),
                sparclSuccess);
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
    for (const sparclTopKMode_t mode : {sparclTopKSelected, sparclTopKGlobal}) {
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 200, 0, 2));
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 200, 1, 2));
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 200, 200, 2));
      results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, mode}, 1, 1, 2));
    }
    results.push_back(
        compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKUnion}, 200, 0, 2));
    results.push_back(compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKSelected},
                                     40'000, 3000, 1));
    return *std::ranges::max_element(results);
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// Where bits need not be the tree's NCCL sums the union's values: the same on every rank, and exact
// where sums are.
TEST_F(NcclTopK, RunsAreReduced) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  std::vector<std::vector<float>> inexact(3);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const Way way{sparclInt32, sparclAvg};
    const std::vector<std::int32_t> sent = values_of<std::int32_t>(sparclInt32, rank, 0, 300);
    const std::vector<std::int32_t> expected =
        by_host(comm, way, sent, 290, nullptr, sparclDeterminismRuns);
    const OnDevice<std::int32_t> from(sent), to(sent);
    EXPECT_EQ(
        on_stream(comm, way, from, to, 300, 290, nullptr, stream_of(rank), sparclDeterminismRuns),
        sparclSuccess);
    const Way floats{sparclFloat32, sparclSum};
    const OnDevice<float> both(values_of<float>(sparclFloat32, rank, 0, 300));
    EXPECT_EQ(on_stream(comm, floats, both, both, 300, 40, nullptr, stream_of(rank),
                        sparclDeterminismRuns),
              sparclSuccess);
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
        compare<float>(rank, comm,
                       {sparclFloat32,
                        sparclSum,
                        sparclTopKUnion,
                        sparclWireSame,
                        true,
                        sparclResidualSent,
                        {100, 200}},
                       300, 40, 1, false, "another"),
        compare<float>(rank, comm, {sparclFloat32, sparclSum, sparclTopKUnion}, 300, 200, 1, false,
                       "another")};  // 4 times 300 values
    return *std::ranges::max_element(results);
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
  EXPECT_EQ(nccl_calls("ncclAllGather"), 0);
}

// At addresses between elements, which kernels cannot read: over NCCL or not.
TEST_F(NcclTopK, ArraysThatAreNotAligned) {
  constexpr std::size_t kElements = 300, kBytes = kElements * sizeof(float);
  for (const bool over_nccl : {false, true}) {
    ThreadRanks party(2);
    if (over_nccl) {
      ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    }
    EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
      const std::vector<float> sent = values_of<float>(sparclFloat32, rank, 0, kElements);
      std::vector<float> top_k(kElements), masked = sent;
      sparclMask_t mask = nullptr;
      EXPECT_EQ(sparclMaskCreateRandom(&mask, kElements, 0.3, 3), sparclSuccess);
      std::vector<std::uint8_t> bytes(kBytes + 1);
      std::memcpy(bytes.data() + 1, sent.data(), kBytes);
      const OnDevice<std::uint8_t> in_place(bytes), received(bytes);
      EXPECT_EQ(sparclAllReduceTopK(sent.data(), top_k.data(), kElements, 40, sparclFloat32,
                                    sparclSum, nullptr, nullptr, comm, nullptr),
                sparclSuccess);
      EXPECT_EQ(sparclAllReduceMasked(sent.data(), masked.data(), kElements, sparclFloat32,
                                      sparclSum, mask, nullptr, nullptr, comm, nullptr),
                sparclSuccess);
      EXPECT_EQ(
          sparclAllReduceTopK(in_place.get() + 1, received.get() + 1, kElements, 40, sparclFloat32,
                              sparclSum, nullptr, nullptr, comm, stream_of(rank)),
          sparclSuccess);
      EXPECT_GE(bytes_copied(stream_of(rank)), 2 * kBytes);
      EXPECT_EQ(std::memcmp(received.read().data() + 1, top_k.data(), kBytes), 0);
      EXPECT_EQ(
          sparclAllReduceMasked(in_place.get() + 1, in_place.get() + 1, kElements, sparclFloat32,
                                sparclSum, mask, nullptr, nullptr, comm, stream_of(rank)),
          sparclSuccess);
      EXPECT_EQ(std::memcmp(in_place.read().data() + 1, masked.data(), kBytes), 0);
      return sparclMaskDestroy(mask);
    }),
                Each(sparclSuccess));
  }
  EXPECT_EQ(nccl_calls("ncclAllGather") + nccl_calls("ncclAllReduce"), 0);
}

}  // namespace
}  // namespace sparcl::test
