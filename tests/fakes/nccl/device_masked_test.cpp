// Masked all-reduces of device arrays that the host sums: the mask's values alone cross, and all
// bits are those of arrays on the host.

#include "tests/fakes/nccl/broadcast_calls.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

using DeviceMasked = NcclRanks;

constexpr std::size_t kMaskedCount = 70'000;

struct MaskOf {
  explicit MaskOf(std::size_t count = kMaskedCount, double density = 0.1) {
    EXPECT_EQ(sparclMaskCreateRandom(&mask, count, density, 5), sparclSuccess);
  }
  ~MaskOf() { EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess); }
  MaskOf(const MaskOf&) = delete;
  sparclMask_t mask = nullptr;
};

// One call on arrays here, and one on arrays on the device.
template <class Word>
void compare(ThreadRanks& party, sparclDataType_t type, sparclRedOp_t op, bool in_place) {
  SCOPED_TRACE(testing::Message() << "type " << type << ", operation " << op << ", in place "
                                  << in_place);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const MaskOf mask;
    const auto own = random_words<Word>(kMaskedCount, static_cast<std::uint64_t>(rank) + 1);
    const auto before = in_place ? own : random_words<Word>(kMaskedCount, 77);
    auto expected = before;
    const OnDevice<Word> send(own), receive(before);
    const Word* const from = in_place ? expected.data() : own.data();
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.outside = in_place ? sparclOutsideZero : sparclOutsideKeep;
    EXPECT_EQ(sparclAllReduceMasked(from, expected.data(), kMaskedCount, type, op, mask.mask,
                                    nullptr, &options, comm, nullptr),
              sparclSuccess);
    const sparclReport_t here = report_of(comm);
    const sparclResult_t result =
        sparclAllReduceMasked(in_place ? receive.get() : send.get(), receive.get(), kMaskedCount,
                              type, op, mask.mask, nullptr, &options, comm, stream_of(rank));
    const sparclReport_t there = report_of(comm);
    EXPECT_TRUE(same(receive.read(), expected)) << "rank " << rank;
    EXPECT_TRUE(same(send.read(), own)) << "rank " << rank;
    EXPECT_EQ(there.nnz_out, here.nnz_out);
    EXPECT_EQ(there.bytes_dense, here.bytes_dense);
    return result;
  }),
              Each(sparclSuccess))
      << sparclGetLastError(party.comm(0));
}

TEST_F(DeviceMasked, OfAnyRanks) {
  for (const int ranks : kRankCounts) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    ThreadRanks party(ranks);
    compare<std::uint32_t>(party, sparclFloat32, sparclSum, false);
    compare<std::uint16_t>(party, sparclBfloat16, sparclAvg, true);
  }
}

// Random bits: infinities and numbers that are none among them.
TEST_F(DeviceMasked, OfAnyType) {
  ThreadRanks party(3);
  compare<std::uint8_t>(party, sparclInt8, sparclSum, false);
  compare<std::uint8_t>(party, sparclFloat8e4m3, sparclMax, false);
  compare<std::uint16_t>(party, sparclFloat16, sparclMin, true);
  compare<std::uint32_t>(party, sparclInt32, sparclProd, false);
  compare<std::uint64_t>(party, sparclFloat64, sparclSum, true);
  compare<std::uint64_t>(party, sparclUint64, sparclMax, false);
}

TEST_F(DeviceMasked, OnlyTheMasksValuesCross) {
  ThreadRanks party(2);
  compare<std::uint32_t>(party, sparclFloat32, sparclSum, false);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(copies_in_stream(stream_of(rank)), 2) << "there and back";
    EXPECT_EQ(bytes_copied(stream_of(rank)), 2 * 4 * (kMaskedCount / 10));
  }
}

// Of a type that NCCL lacks, where the GPUs talk over it.
TEST_F(DeviceMasked, TypesThatNcclLacks) {
  ThreadRanks party(3);
  ASSERT_THAT(use_nccl(party), Each(sparclSuccess));
  compare<std::uint16_t>(party, sparclInt16, sparclSum, false);
  EXPECT_EQ(nccl_calls("ncclAllReduce"), 0);
  EXPECT_EQ(copies_in_stream(stream_of(1)), 2);
}

TEST_F(DeviceMasked, RanksMayHaveArraysWhereTheyLike) {
  ThreadRanks party(4);
  const auto own = [](int rank) {
    return random_words<std::uint32_t>(kMaskedCount, static_cast<std::uint64_t>(rank) + 9);
  };
  std::vector<std::vector<std::uint32_t>> sums(4);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    const MaskOf mask;
    Held<std::uint32_t> send(own(rank), {rank % 2 == 0}),
        receive(std::vector<std::uint32_t>(kMaskedCount), {rank % 2 == 0});
    const sparclResult_t result =
        sparclAllReduceMasked(send.get(), receive.get(), kMaskedCount, sparclFloat32, sparclSum,
                              mask.mask, nullptr, nullptr, comm, nullptr);
    sums[static_cast<std::size_t>(rank)] = receive.read();
    return result;
  }),
              Each(sparclSuccess));
  for (const auto& sum : sums) EXPECT_TRUE(same(sum, sums[0]));
}

// By way of the host whole: an address between elements, a mask of all, kernels that are off.
TEST_F(DeviceMasked, WhatGoesByWayOfTheHostWhole) {
  const auto copied = [&](double density, std::size_t offset, int stream) {
    ThreadRanks party(2);
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      const MaskOf mask(kMaskedCount, density);
      const OnDevice<std::uint8_t> array(random_words<std::uint8_t>(4 * kMaskedCount + 4, 3));
      return sparclAllReduceMasked(array.get() + offset, array.get() + offset, kMaskedCount,
                                   sparclFloat32, sparclSum, mask.mask, nullptr, nullptr, comm,
                                   stream_of(rank, stream));
    }),
                Each(sparclSuccess));
    return bytes_copied(stream_of(0, stream));
  };
  EXPECT_LT(copied(0.1, 0, 1), 4 * kMaskedCount);
  EXPECT_EQ(copied(0.1, 1, 2), 8 * kMaskedCount);
  EXPECT_EQ(copied(1, 0, 3), 8 * kMaskedCount);
  const Setting off("SPARCL_DEVICE_KERNELS", "off");
  EXPECT_EQ(copied(0.1, 0, 4), 8 * kMaskedCount);
}

// Wherever a copy fails: the same error on all ranks and nothing written, or an error of the rank
// whose output is not there.
TEST_F(DeviceMasked, ADriverThatFails) {
  bool has_succeeded = false;
  int refused = 0, late = 0;
  for (int failing = 0; !has_succeeded && failing < 20; ++failing) {
    SCOPED_TRACE(testing::Message() << "from copy " << failing);
    ThreadRanks party(2);
    const auto before = random_words<std::uint32_t>(1'000, 4);
    std::vector<std::string> texts(2);
    const MaskOf mask(1'000, 0.3);
    fail_copies_from(failing);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const OnDevice<std::uint32_t> array(before);
      const sparclResult_t result =
          sparclAllReduceMasked(array.get(), array.get(), 1'000, sparclInt32, sparclSum, mask.mask,
                                nullptr, nullptr, comm, stream_of(rank));
      texts[static_cast<std::size_t>(rank)] = sparclGetLastError(comm);
      EXPECT_EQ(same(array.read(), before), result != sparclSuccess);
      return result;
    });
    fail_copies_from(-1);
    has_succeeded = results[0] == sparclSuccess && results[1] == sparclSuccess;
    if (has_succeeded) break;
    const bool is_late = texts[0].find("did not reach the device") != std::string::npos ||
                         texts[1].find("did not reach the device") != std::string::npos;
    ++(is_late ? late : refused);
    if (!is_late) {
      EXPECT_THAT(results, Each(sparclUnhandledCudaError));
      EXPECT_THAT(texts[0], HasSubstr("CUDA"));
    }
  }
  EXPECT_TRUE(has_succeeded);
  EXPECT_GT(refused, 0);
  EXPECT_GT(late, 0);
}

}  // namespace
}  // namespace sparcl::test
