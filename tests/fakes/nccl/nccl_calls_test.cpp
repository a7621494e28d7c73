// Masked sums between GPUs give what those on the host give.

#include <bit>
#include <cmath>
#include <random>

#include "tests/fakes/nccl/gpu_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kCount = 20'000;

// Their sums and products over 8 ranks are exact in any order.
template <class T>
std::vector<T> exact_values(int rank) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::vector<T> values(kCount);
  for (T& value : values) value = static_cast<T>(1 + random() % 3);
  return values;
}
template <>
std::vector<std::uint16_t> exact_values(int rank) {  // bfloat16
  std::vector<std::uint16_t> values;
  for (const float value : exact_values<float>(rank))
    values.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  return values;
}

struct MaskKind {
  const char* name;
  sparclResult_t (*make)(sparclMask_t* mask);
};
const MaskKind kMasks[] = {
    {"random", [](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, kCount, 0.1, 3); }},
    {"blocks", [](sparclMask_t* mask) { return sparclMaskCreateBlocks(mask, kCount, 33, 0.3, 4); }},
    {"two indices",
     [](sparclMask_t* mask) {
       const std::uint64_t indices[] = {7, kCount - 1};
       return sparclMaskCreateIndices(mask, indices, 2, kCount);
     }},
    {"all", [](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, kCount, 1, 3); }},
    {"none", [](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, kCount, 0, 3); }},
};

template <class T>
sparclResult_t compare(int rank, sparclComm_t comm, sparclDataType_t type, sparclRedOp_t op,
                       const MaskKind& kind) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ", type " << type << ", op " << op
                                  << ", mask " << kind.name);
  sparclMask_t mask = nullptr;
  EXPECT_EQ(kind.make(&mask), sparclSuccess);
  const std::vector<T> sent = exact_values<T>(rank);
  std::vector<T> expected = exact_values<T>(100);
  sparclResult_t result = sparclAllReduceMasked(sent.data(), expected.data(), kCount, type, op,
                                                mask, nullptr, nullptr, comm, nullptr);
  if (result != sparclSuccess) return result;
  std::vector<T> in_place = sent;
  sparclMaskedOptions_t zero = SPARCL_MASKED_OPTIONS_INITIALIZER;
  zero.outside = sparclOutsideZero;
  result = sparclAllReduceMasked(in_place.data(), in_place.data(), kCount, type, op, mask, nullptr,
                                 &zero, comm, nullptr);
  if (result != sparclSuccess) return result;
  const OnDevice<T> from(sent), to(exact_values<T>(100)), both(sent);
  const sparclStream_t stream = stream_of(rank);
  result = sparclAllReduceMasked(from.get(), to.get(), kCount, type, op, mask, nullptr, nullptr,
                                 comm, stream);
  if (result == sparclSuccess) {
    const bool has_any = std::string(kind.name) != "none";
    EXPECT_EQ(algorithm_of(comm) == "nccl", has_any);
    EXPECT_EQ(to.read(), exact_values<T>(100)) << "nothing happens before the stream comes to it";
    result = sparclAllReduceMasked(both.get(), both.get(), kCount, type, op, mask, nullptr, &zero,
                                   comm, stream);
  }
  EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess)
      << "what the stream holds does not need the mask";
  if (result == sparclSuccess) result = sparclCommStreamSynchronize(comm, stream);
  EXPECT_EQ(from.read(), sent);
  EXPECT_EQ(to.read(), expected);
  EXPECT_EQ(both.read(), in_place);
  return result;
}

TEST_F(NcclRanks, MaskedSumsAreThoseOfTheHost) {
  const int before = allocations_alive();
  for (const int ranks : kRankCounts) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    ThreadRanks party(ranks);
    ASSERT_EQ(party.created(), sparclSuccess);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
      for (const MaskKind& kind : kMasks) {
        if (const sparclResult_t result =
                compare<float>(rank, comm, sparclFloat32, sparclSum, kind);
            result != sparclSuccess)
          return result;
      }
      return sparclSuccess;
    }),
                Each(sparclSuccess))
        << last_error(party, 0);
  }
  EXPECT_EQ(allocations_alive(), before);
  EXPECT_EQ(nccl_comms_alive(), 0);
  EXPECT_EQ(nccl_aborts(), 0);
}

TEST_F(NcclRanks, OfEachTypeAndOperation) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    std::vector<sparclResult_t> results;
    for (const sparclRedOp_t op : {sparclSum, sparclProd, sparclMax, sparclMin}) {
      results.push_back(compare<std::int8_t>(rank, comm, sparclInt8, op, kMasks[0]));
      results.push_back(compare<std::uint8_t>(rank, comm, sparclUint8, op, kMasks[0]));
      results.push_back(compare<std::int32_t>(rank, comm, sparclInt32, op, kMasks[0]));
      results.push_back(compare<std::uint32_t>(rank, comm, sparclUint32, op, kMasks[0]));
      results.push_back(compare<std::int64_t>(rank, comm, sparclInt64, op, kMasks[0]));
      results.push_back(compare<std::uint64_t>(rank, comm, sparclUint64, op, kMasks[1]));
      results.push_back(compare<float>(rank, comm, sparclFloat32, op, kMasks[1]));
      results.push_back(compare<double>(rank, comm, sparclFloat64, op, kMasks[1]));
      results.push_back(compare<std::uint16_t>(rank, comm, sparclBfloat16, op, kMasks[1]));
    }
    results.push_back(compare<std::int32_t>(rank, comm, sparclInt32, sparclAvg, kMasks[0]));
    return *std::ranges::max_element(results);
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// Other bits than on the host, as the order is another; the same on every rank.
TEST_F(NcclRanks, InexactSumsHaveTheSameBitsOnEveryRank) {
  for (const int ranks : kRankCounts) {
    ThreadRanks party(ranks);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks));
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      sparclMask_t mask = nullptr;
      EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.5, 3), sparclSuccess);
      std::vector<float> values(kCount);
      for (std::size_t i = 0; i < kCount; ++i)
        values[i] = std::sin(static_cast<float>(i * static_cast<std::size_t>(rank + 3)));
      const OnDevice<float> from(values), to(std::vector<float>(kCount, 9));
      EXPECT_EQ(sparclAllReduceMasked(from.get(), to.get(), kCount, sparclFloat32, sparclSum, mask,
                                      nullptr, nullptr, comm, stream_of(rank)),
                sparclSuccess);
      sparclMaskDestroy(mask);
      const sparclResult_t result = sparclCommStreamSynchronize(comm, stream_of(rank));
      sums[static_cast<std::size_t>(rank)] = to.read();
      return result;
    }),
                Each(sparclSuccess));
    for (const std::vector<float>& each : sums)
      EXPECT_EQ(std::memcmp(each.data(), sums[0].data(), kCount * sizeof(float)), 0)
          << ranks << " ranks";
  }
}

TEST_F(NcclRanks, ACallMayAskForTheBitsOfTheHost) {
  ThreadRanks party(5);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.5, 3), sparclSuccess);
    std::vector<float> values(kCount), expected(kCount, 9);
    for (std::size_t i = 0; i < kCount; ++i)
      values[i] = std::sin(static_cast<float>(i * static_cast<std::size_t>(rank + 3)));
    EXPECT_EQ(sparclAllReduceMasked(values.data(), expected.data(), kCount, sparclFloat32,
                                    sparclSum, mask, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    const OnDevice<float> from(values), to(std::vector<float>(kCount, 9));
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.determinism = sparclDeterminismCanonical;
    EXPECT_EQ(sparclAllReduceMasked(from.get(), to.get(), kCount, sparclFloat32, sparclSum, mask,
                                    nullptr, &options, comm, stream_of(rank)),
              sparclSuccess);
    EXPECT_EQ(algorithm_of(comm), "nccl");
    EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank)), sparclSuccess);
    EXPECT_EQ(std::memcmp(to.read().data(), expected.data(), kCount * sizeof(float)), 0);
    // Ranks that ask for different bits make different calls.
    options.determinism = rank == 1 ? sparclDeterminismCanonical : sparclDeterminismRuns;
    const sparclResult_t result =
        sparclAllReduceMasked(from.get(), to.get(), kCount, sparclFloat32, sparclSum, mask, nullptr,
                              &options, comm, stream_of(rank));
    sparclMaskDestroy(mask);
    return result;
  });
  EXPECT_THAT(results, Each(sparclMismatch));
}

// Masks that change from call to call, over two streams that share what the library holds on the
// device.
TEST_F(NcclRanks, RedrawnMasksAndSeveralStreams) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateBlocks(&mask, kCount, 700, 0.4, 3), sparclSuccess);
    std::vector<OnDevice<std::int32_t>> outputs;
    std::vector<std::vector<std::int32_t>> expected;
    const OnDevice<std::int32_t> from(exact_values<std::int32_t>(rank));
    for (std::uint64_t step = 0; step < 8; ++step) {
      EXPECT_EQ(sparclMaskSetStep(mask, step), sparclSuccess);
      expected.emplace_back(kCount, -1);
      EXPECT_EQ(sparclAllReduceMasked(exact_values<std::int32_t>(rank).data(),
                                      expected.back().data(), kCount, sparclInt32, sparclSum, mask,
                                      nullptr, nullptr, comm, nullptr),
                sparclSuccess);
      outputs.emplace_back(std::vector<std::int32_t>(kCount, -1));
      EXPECT_EQ(sparclAllReduceMasked(from.get(), outputs.back().get(), kCount, sparclInt32,
                                      sparclSum, mask, nullptr, nullptr, comm,
                                      stream_of(rank, static_cast<int>(step % 2))),
                sparclSuccess);
    }
    sparclMaskDestroy(mask);
    EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank, 1)), sparclSuccess);
    const sparclResult_t result = sparclCommStreamSynchronize(comm, stream_of(rank, 0));
    for (std::size_t step = 0; step < 8; ++step)
      EXPECT_EQ(outputs[step].read(), expected[step]) << "step " << step;
    return result;
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// What the library holds for packed values is one for all streams: a call on another stream comes
// after the last that used it, whatever else was called in between.
TEST_F(NcclRanks, CallsOnOtherStreamsComeAfterThoseThatShareMemory) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    sparclMask_t some = nullptr, all = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&some, kCount, 0.5, 3), sparclSuccess);
    EXPECT_EQ(sparclMaskCreateRandom(&all, kCount, 1, 3), sparclSuccess);
    const std::vector<float> values = exact_values<float>(rank);
    std::vector<float> expected = values;
    EXPECT_EQ(sparclAllReduceMasked(values.data(), expected.data(), kCount, sparclFloat32,
                                    sparclSum, some, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    const OnDevice<float> first(values), between(values), last(values);
    const auto call = [&](const OnDevice<float>& array, sparclMask_t mask, int stream) {
      EXPECT_EQ(sparclAllReduceMasked(array.get(), array.get(), kCount, sparclFloat32, sparclSum,
                                      mask, nullptr, nullptr, comm, stream_of(rank, stream)),
                sparclSuccess);
    };
    call(first, some, 0);
    call(between, all, 1);
    call(last, some, 2);
    const sparclResult_t result = sparclCommStreamSynchronize(comm, stream_of(rank, 2));
    EXPECT_EQ(first.read(), expected) << "nobody has waited for its stream";
    EXPECT_EQ(last.read(), expected);
    EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank, 1)), sparclSuccess);
    sparclMaskDestroy(some);
    sparclMaskDestroy(all);
    return result;
  }),
              Each(sparclSuccess))
      << last_error(party, 0);
}

// A graph holds the mask as it was, and sums what the arrays hold when it is launched.
TEST_F(NcclRanks, CallsAreCapturedIntoGraphs) {
  const int before = allocations_alive();
  {
    ThreadRanks party(3);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
      sparclMask_t mask = nullptr;
      EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.2, 3), sparclSuccess);
      const OnDevice<float> from(std::vector<float>(kCount, 0)), to(std::vector<float>(kCount, 9));
      const sparclStream_t stream = stream_of(rank);
      begin_capture(stream);
      // Two calls, the first that this mask makes.
      EXPECT_EQ(sparclAllReduceMasked(from.get(), to.get(), kCount, sparclFloat32, sparclSum, mask,
                                      nullptr, nullptr, comm, stream),
                sparclSuccess);
      EXPECT_EQ(sparclAllReduceMasked(to.get(), to.get(), kCount, sparclFloat32, sparclMax, mask,
                                      nullptr, nullptr, comm, stream),
                sparclSuccess);
      EXPECT_EQ(sparclCommStreamSynchronize(comm, stream), sparclInvalidUsage);
      const auto graph = end_capture(stream);
      EXPECT_NE(graph, nullptr) << "something in the call is not for captures";
      if (graph == nullptr) return sparclInternalError;
      std::vector<std::vector<float>> expected;
      for (int launch = 0; launch < 3; ++launch) {
        expected.emplace_back(kCount, 9);
        EXPECT_EQ(sparclAllReduceMasked(exact_values<float>(rank + launch).data(),
                                        expected.back().data(), kCount, sparclFloat32, sparclSum,
                                        mask, nullptr, nullptr, comm, nullptr),
                  sparclSuccess);
      }
      EXPECT_EQ(sparclMaskSetStep(mask, 1), sparclSuccess);
      const OnDevice<float> other(std::vector<float>(kCount, 9));
      EXPECT_EQ(sparclAllReduceMasked(from.get(), other.get(), kCount, sparclFloat32, sparclSum,
                                      mask, nullptr, nullptr, comm, stream),
                sparclSuccess);
      sparclMaskDestroy(mask);
      sparclResult_t result = sparclSuccess;
      for (int launch = 0; launch < 3; ++launch) {
        from.write(exact_values<float>(rank + launch));
        sparcl::test::launch(*graph, stream);
        result = sparclCommStreamSynchronize(comm, stream);
        EXPECT_EQ(to.read(), expected[static_cast<std::size_t>(launch)]) << "launch " << launch;
      }
      return result;
    }),
                Each(sparclSuccess))
        << last_error(party, 0);
  }
  EXPECT_EQ(allocations_alive(), before);
}

TEST_F(NcclRanks, TypesThatNcclLacksGoByWayOfTheHost) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.2, 3), sparclSuccess);
    const OnDevice<std::uint16_t> array(
        std::vector<std::uint16_t>(kCount, static_cast<std::uint16_t>(rank + 1)));
    for (const sparclDataType_t type : {sparclInt16, sparclUint16}) {
      EXPECT_EQ(sparclAllReduceMasked(array.get(), array.get(), kCount, type, sparclMax, mask,
                                      nullptr, nullptr, comm, stream_of(rank)),
                sparclSuccess);
      EXPECT_NE(algorithm_of(comm), "nccl");
    }
    const OnDevice<std::uint8_t> bytes(std::vector<std::uint8_t>(kCount, 0x38));
    EXPECT_EQ(sparclAllReduceMasked(bytes.get(), bytes.get(), kCount, sparclFloat8e4m3, sparclMax,
                                    mask, nullptr, nullptr, comm, stream_of(rank)),
              sparclSuccess);
    sparclMaskDestroy(mask);
    return sparclSuccess;
  }),
              Each(sparclSuccess));
  EXPECT_EQ(nccl_calls("ncclAllReduce"), 0);
}

}  // namespace
}  // namespace sparcl::test
