// Canonical masked sums between GPUs have the bits of the host's way, over NCCL.

#include "tests/fakes/nccl/broadcast_calls.hpp"

namespace sparcl::test {
namespace {

using testing::Each;

constexpr std::size_t kElements = 6'000;  // of which 16 bytes go to each of 2, 3, 4, 5 ranks alike

// Canonical, by the way that is said.
class NcclCanonical : public NcclRanks {
 protected:
  void go(const char* way) { way_.emplace("SPARCL_ALGO_ALLREDUCE", way); }

 private:
  Setting canonical_{"SPARCL_DETERMINISM", "canonical"};
  std::optional<Setting> way_;
};

struct MaskIn {
  const char* name;
  sparclResult_t (*make)(sparclMask_t* mask);
};
const MaskIn kMasksIn[] = {
    {"random", [](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, kElements, 0.3, 3); }},
    {"blocks",
     [](sparclMask_t* mask) { return sparclMaskCreateBlocks(mask, kElements, 33, 0.3, 4); }},
    {"all", [](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, kElements, 1, 3); }},
    {"all but one",
     [](sparclMask_t* mask) {
       std::vector<std::uint64_t> indices(kElements - 1);
       for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i < 7 ? i : i + 1;
       return sparclMaskCreateIndices(mask, indices.data(), indices.size(), kElements);
     }},
    {"two indices",
     [](sparclMask_t* mask) {
       const std::uint64_t indices[] = {7, kElements - 1};
       return sparclMaskCreateIndices(mask, indices, 2, kElements);
     }},
    {"one index",
     [](sparclMask_t* mask) {
       const std::uint64_t index = 4'000;
       return sparclMaskCreateIndices(mask, &index, 1, kElements);
     }},
    {"none", [](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, kElements, 0, 3); }},
};

// Any bits: NaN with payloads, infinities and denormals; often -0, or a number of few bits.
template <class Word>
std::vector<Word> special_words(int rank, std::uint64_t seed = 0) {
  std::vector<Word> words =
      random_words<Word>(kElements, seed * 100 + static_cast<std::uint64_t>(rank) + 1);
  constexpr Word kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  for (std::size_t i = 0; i < kElements; ++i) {
    const std::size_t kind = (i / 3 + 7 * static_cast<std::size_t>(rank)) % 11;
    if (kind == 0 || i % 50 == 0) words[i] = kSign;
    if (kind == 1) words[i] = static_cast<Word>(words[i] & (kSign | 3));
    if (kind > 5)
      words[i] = static_cast<Word>(words[i] & static_cast<Word>(~(kSign >> 1)));  // floats below 2
  }
  return words;
}

// One call on arrays here and two on arrays on the device: apart, and in place.
template <class Word>
sparclResult_t compare(int rank, sparclComm_t comm, sparclDataType_t type, sparclRedOp_t op,
                       const MaskIn& kind) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << ", type " << type << ", op " << op
                                  << ", mask " << kind.name);
  sparclMask_t mask = nullptr;
  EXPECT_EQ(kind.make(&mask), sparclSuccess);
  const std::vector<Word> sent = special_words<Word>(rank), before = special_words<Word>(100);
  std::vector<Word> expected = before, expected_in_place = sent;
  sparclResult_t result = sparclAllReduceMasked(sent.data(), expected.data(), kElements, type, op,
                                                mask, nullptr, nullptr, comm, nullptr);
  if (result != sparclSuccess) return result;
  sparclMaskedOptions_t zero = SPARCL_MASKED_OPTIONS_INITIALIZER;
  zero.outside = sparclOutsideZero;
  result = sparclAllReduceMasked(expected_in_place.data(), expected_in_place.data(), kElements,
                                 type, op, mask, nullptr, &zero, comm, nullptr);
  if (result != sparclSuccess) return result;
  const OnDevice<Word> from(sent), to(before), both(sent);
  const sparclStream_t stream = stream_of(rank);
  result = sparclAllReduceMasked(from.get(), to.get(), kElements, type, op, mask, nullptr, nullptr,
                                 comm, stream);
  if (result != sparclSuccess) return result;
  const bool has_any = std::string(kind.name) != "none";
  EXPECT_EQ(algorithm_of(comm) == "nccl", has_any);
  EXPECT_TRUE(same(to.read(), before)) << "nothing happens before the stream comes to it";
  result = sparclAllReduceMasked(both.get(), both.get(), kElements, type, op, mask, nullptr, &zero,
                                 comm, stream);
  EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess)
      << "what the stream holds does not need the mask";
  if (result == sparclSuccess) result = sparclCommStreamSynchronize(comm, stream);
  EXPECT_TRUE(same(from.read(), sent));
  EXPECT_TRUE(same(to.read(), expected));
  EXPECT_TRUE(same(both.read(), expected_in_place));
  return result;
}

TEST_F(NcclCanonical, OfAnyRanksAndMask) {
  const int before = allocations_alive();
  for (const char* const way : {"direct", "owner"}) {
    go(way);
    for (const int ranks : kRankCounts) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << way);
      ThreadRanks party(ranks);
      ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
      EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
        for (const MaskIn& kind : kMasksIn) {
          const sparclResult_t result =
              compare<std::uint32_t>(rank, comm, sparclFloat32, sparclSum, kind);
          if (result != sparclSuccess) return result;
        }
        return compare<std::uint16_t>(rank, comm, sparclBfloat16, sparclAvg, kMasksIn[0]);
      }),
                  Each(sparclSuccess))
          << last_error(party, 0);
    }
  }
  EXPECT_EQ(nccl_calls("ncclAllReduce"), 0);
  EXPECT_EQ(nccl_open_groups(), 0);
  EXPECT_EQ(allocations_alive(), before);
  EXPECT_EQ(nccl_comms_alive(), 0);
  EXPECT_EQ(nccl_aborts(), 0);
}

template <class Word>
void compare_all(int rank, sparclComm_t comm, std::initializer_list<sparclDataType_t> types) {
  for (const sparclDataType_t type : types) {
    for (const sparclRedOp_t op : {sparclSum, sparclProd, sparclMax, sparclMin, sparclAvg}) {
      if (type == sparclBool && op == sparclAvg) continue;
      EXPECT_EQ(compare<Word>(rank, comm, type, op, kMasksIn[op % 2]), sparclSuccess)
          << sparclGetLastError(comm);
    }
  }
}

TEST_F(NcclCanonical, OfEachTypeAndOperation) {
  for (const char* const way : {"direct", "owner"}) {
    go(way);
    ThreadRanks party(way[0] == 'o' ? 5 : 3);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    party.run([](int rank, sparclComm_t comm) {
      compare_all<std::uint8_t>(
          rank, comm, {sparclInt8, sparclUint8, sparclBool, sparclFloat8e4m3, sparclFloat8e5m2});
      compare_all<std::uint16_t>(rank, comm,
                                 {sparclInt16, sparclUint16, sparclFloat16, sparclBfloat16});
      compare_all<std::uint32_t>(rank, comm, {sparclInt32, sparclUint32, sparclFloat32});
      compare_all<std::uint64_t>(rank, comm, {sparclInt64, sparclUint64, sparclFloat64});
      return sparclSuccess;
    });
  }
}

// What goes by pieces: enough of it, by two ranks more than by others.
TEST_F(NcclCanonical, SizeAndRanksDecideTheWay) {
  const auto sends = [&](int ranks, std::size_t count) {
    reset_nccl();
    ThreadRanks party(ranks);
    EXPECT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      sparclMask_t mask = nullptr;
      EXPECT_EQ(sparclMaskCreateRandom(&mask, count, 0.5, 3), sparclSuccess);
      const OnDevice<std::uint32_t> array(
          random_words<std::uint32_t>(count, static_cast<std::uint64_t>(rank)));
      EXPECT_EQ(sparclAllReduceMasked(array.get(), array.get(), count, sparclUint32, sparclSum,
                                      mask, nullptr, nullptr, comm, stream_of(rank, ranks)),
                sparclSuccess);
      sparclMaskDestroy(mask);
      return sparclCommStreamSynchronize(comm, stream_of(rank, ranks));
    }),
                Each(sparclSuccess));
    EXPECT_EQ(nccl_calls("ncclAllGather"), ranks == 1 ? 0 : ranks);
    EXPECT_EQ(nccl_calls("ncclRecv"), nccl_calls("ncclSend"));
    return nccl_calls("ncclSend");
  };
  EXPECT_EQ(sends(1, 1'000), 0);
  EXPECT_EQ(sends(2, 132'000), 0);
  EXPECT_EQ(sends(2, 8'400'000), 4);
  EXPECT_EQ(sends(4, 131'000), 0);
  EXPECT_EQ(sends(4, 132'000), 16);
}

// Masks that change from call to call, over two streams that share what the library holds on the
// device.
TEST_F(NcclCanonical, RedrawnMasksAndSeveralStreams) {
  for (const char* const way : {"direct", "owner"}) {
    go(way);
    ThreadRanks party(3);
    ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
    const int first = way[0] == 'o' ? 2 : 0;
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      sparclMask_t mask = nullptr;
      EXPECT_EQ(sparclMaskCreateBlocks(&mask, kElements, 700, 0.4, 3), sparclSuccess);
      std::vector<OnDevice<std::uint32_t>> outputs;
      std::vector<std::vector<std::uint32_t>> expected;
      const OnDevice<std::uint32_t> from(special_words<std::uint32_t>(rank));
      for (std::uint64_t step = 0; step < 8; ++step) {
        EXPECT_EQ(sparclMaskSetStep(mask, step), sparclSuccess);
        expected.emplace_back(kElements, 1);
        EXPECT_EQ(sparclAllReduceMasked(special_words<std::uint32_t>(rank).data(),
                                        expected.back().data(), kElements, sparclFloat32, sparclSum,
                                        mask, nullptr, nullptr, comm, nullptr),
                  sparclSuccess);
        outputs.emplace_back(std::vector<std::uint32_t>(kElements, 1));
        EXPECT_EQ(sparclAllReduceMasked(from.get(), outputs.back().get(), kElements, sparclFloat32,
                                        sparclSum, mask, nullptr, nullptr, comm,
                                        stream_of(rank, first + static_cast<int>(step % 2))),
                  sparclSuccess);
      }
      sparclMaskDestroy(mask);
      EXPECT_EQ(sparclCommStreamSynchronize(comm, stream_of(rank, first + 1)), sparclSuccess);
      const sparclResult_t result = sparclCommStreamSynchronize(comm, stream_of(rank, first));
      for (std::size_t step = 0; step < 8; ++step)
        EXPECT_TRUE(same(outputs[step].read(), expected[step])) << "step " << step;
      return result;
    }),
                Each(sparclSuccess))
        << last_error(party, 0);
  }
}

// A graph holds the mask as it was, and sums what the arrays hold when it is launched.
TEST_F(NcclCanonical, CallsAreCapturedIntoGraphs) {
  const int before = allocations_alive();
  for (const char* const way : {"direct", "owner"}) {
    for (const double density : {0.2, 1.0}) {
      SCOPED_TRACE(testing::Message() << way << ", density " << density);
      go(way);
      ThreadRanks party(3);
      ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
      const int number = (way[0] == 'o' ? 2 : 0) + (density == 1 ? 1 : 0);
      EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
        sparclMask_t mask = nullptr;
        EXPECT_EQ(sparclMaskCreateRandom(&mask, kElements, density, 3), sparclSuccess);
        const std::vector<std::uint16_t> untouched(kElements, 0x3c00);
        const OnDevice<std::uint16_t> from(untouched), to(untouched), other(untouched);
        const sparclStream_t stream = stream_of(rank, number);
        const auto call = [&](const void* send, void* receive, sparclStream_t in) {
          return sparclAllReduceMasked(send, receive, kElements, sparclFloat16, sparclAvg, mask,
                                       nullptr, nullptr, comm, in);
        };
        begin_capture(stream);
        EXPECT_EQ(call(from.get(), to.get(), stream), sparclSuccess);
        EXPECT_EQ(call(to.get(), to.get(), stream), sparclSuccess);
        const auto graph = end_capture(stream);
        EXPECT_NE(graph, nullptr) << "something in the call is not for captures";
        if (graph == nullptr) return sparclInternalError;
        std::vector<std::vector<std::uint16_t>> expected;
        for (std::uint64_t launch = 0; launch < 3; ++launch) {
          std::vector<std::uint16_t>& each = expected.emplace_back(untouched);
          EXPECT_EQ(call(special_words<std::uint16_t>(rank, launch).data(), each.data(), nullptr),
                    sparclSuccess);
          EXPECT_EQ(call(each.data(), each.data(), nullptr), sparclSuccess);
        }
        if (density < 1) {
          EXPECT_EQ(sparclMaskSetStep(mask, 1), sparclSuccess);
        }
        EXPECT_EQ(call(from.get(), other.get(), stream), sparclSuccess);
        sparclMaskDestroy(mask);
        sparclResult_t result = sparclSuccess;
        for (std::uint64_t launch = 0; launch < 3; ++launch) {
          from.write(special_words<std::uint16_t>(rank, launch));
          sparcl::test::launch(*graph, stream);
          result = sparclCommStreamSynchronize(comm, stream);
          EXPECT_TRUE(same(to.read(), expected[launch])) << "launch " << launch;
        }
        return result;
      }),
                  Each(sparclSuccess))
          << last_error(party, 0);
    }
  }
  EXPECT_EQ(allocations_alive(), before);
}

// By way of the host, with the same bits: what is not aligned to its elements, calls with a
// feedback, and non-blocking ones.
TEST_F(NcclCanonical, WhatGoesByWayOfTheHost) {
  ThreadRanks party(2);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess)) << last_error(party, 0);
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    sparclMask_t mask = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kElements, 0.3, 3), sparclSuccess);
    const auto sent = special_words<std::uint32_t>(rank);
    std::vector<std::uint32_t> expected = sent;
    EXPECT_EQ(sparclAllReduceMasked(sent.data(), expected.data(), kElements, sparclFloat32,
                                    sparclSum, mask, nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    std::vector<std::uint8_t> bytes(4 * kElements + 4), result(4 * kElements);
    std::memcpy(bytes.data() + 1, sent.data(), 4 * kElements);
    const OnDevice<std::uint8_t> between(bytes);
    EXPECT_EQ(sparclAllReduceMasked(between.get() + 1, between.get() + 1, kElements, sparclFloat32,
                                    sparclSum, mask, nullptr, nullptr, comm, stream_of(rank)),
              sparclSuccess);
    EXPECT_NE(algorithm_of(comm), "nccl");
    EXPECT_EQ(std::memcmp(between.read().data() + 1, expected.data(), 4 * kElements), 0);
    const OnDevice<std::uint32_t> array(sent);
    sparclRequest_t request = nullptr;
    EXPECT_EQ(sparclIAllReduceMasked(array.get(), array.get(), kElements, sparclFloat32, sparclSum,
                                     mask, nullptr, nullptr, comm, nullptr, &request),
              sparclSuccess);
    EXPECT_EQ(sparclWait(&request, nullptr), sparclSuccess);
    EXPECT_TRUE(same(array.read(), expected));
    sparclMaskDestroy(mask);
    return sparclSuccess;
  }),
              Each(sparclSuccess));
  EXPECT_EQ(nccl_calls("ncclAllGather"), 0);
}

}  // namespace
}  // namespace sparcl::test
