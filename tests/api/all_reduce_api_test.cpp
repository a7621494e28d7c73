// The masked all-reduce as users reach it: the C interface of the shared library, ranks as threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.h"
#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::array<int, 7> kRankCounts{1, 2, 3, 4, 5, 7, 8};

class MaskHandle {
 public:
  MaskHandle(std::size_t count, double density, std::uint64_t seed) {
    EXPECT_EQ(sparclMaskCreateRandom(&mask_, count, density, seed), sparclSuccess);
  }
  ~MaskHandle() { EXPECT_EQ(sparclMaskDestroy(mask_), sparclSuccess); }
  MaskHandle(const MaskHandle&) = delete;
  MaskHandle& operator=(const MaskHandle&) = delete;
  sparclMask_t get() const { return mask_; }
  std::vector<std::uint64_t> indices() const {
    std::size_t nnz = 0;
    EXPECT_EQ(sparclMaskGetIndices(mask_, nullptr, 0, &nnz), sparclSuccess);
    std::vector<std::uint64_t> indices(nnz);
    EXPECT_EQ(sparclMaskGetIndices(mask_, indices.data(), nnz, &nnz), sparclSuccess);
    return indices;
  }

 private:
  sparclMask_t mask_ = nullptr;
};

// Whole numbers: their sums are exact in any order, so the expectation needs no tree.
TEST(AllReduceMaskedApi, SumsTheMaskAndLeavesTheRest) {
  for (const int ranks : kRankCounts) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1'000}, std::size_t{300'000}}) {
      ThreadRanks party(ranks);
      ASSERT_EQ(party.created(), sparclSuccess);
      std::vector<std::vector<float>> sent(static_cast<std::size_t>(ranks)), held(sent.size());
      for (std::size_t r = 0; r < sent.size(); ++r) {
        sent[r].resize(count);
        for (std::size_t i = 0; i < count; ++i) sent[r][i] = static_cast<float>((i * 7 + r * 13) % 1'000);
        held[r].assign(count, -1.0f);
      }
      std::vector<sparclReport_t> reports(sent.size());
      const auto results = party.run([&](int rank, sparclComm_t comm) {
        const auto r = static_cast<std::size_t>(rank);
        const MaskHandle mask(count, 0.1, 5);
        const sparclResult_t result =
            sparclAllReduceMasked(sent[r].data(), held[r].data(), count, sparclFloat32, sparclSum, mask.get(), comm, nullptr);
        reports[r] = SPARCL_REPORT_INITIALIZER;
        return result == sparclSuccess ? sparclCommLastReport(comm, &reports[r]) : result;
      });
      ASSERT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
      std::vector<float> expected(count, -1.0f);
      const std::vector<std::uint64_t> indices = MaskHandle(count, 0.1, 5).indices();
      for (const std::uint64_t i : indices) {
        expected[i] = 0;
        for (const auto& values : sent) expected[i] += values[i];
      }
      EXPECT_THAT(held, Each(expected));
      for (const sparclReport_t& report : reports) {
        EXPECT_EQ(report.nnz_out, indices.size());
        EXPECT_EQ(report.bytes_dense, count * sizeof(float));
        EXPECT_LE(report.bytes_sent, static_cast<std::uint64_t>(ranks) * indices.size() * sizeof(float));
        EXPECT_EQ(report.applied, 1);
      }
    }
  }
}

TEST(AllReduceMaskedApi, TheMeanOfHalfPrecisionIsRoundedOnce) {
  ThreadRanks party(3);
  ASSERT_EQ(party.created(), sparclSuccess);
  // 1 + 2^-7 of bfloat16 from each of three ranks: the mean is exact in float32 alone.
  std::vector<std::vector<std::uint16_t>> held(3, std::vector<std::uint16_t>(100, 0x3f81));
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const MaskHandle mask(100, 1, 0);
    auto& own = held[static_cast<std::size_t>(rank)];
    return sparclAllReduceMasked(own.data(), own.data(), own.size(), sparclBfloat16, sparclAvg, mask.get(), comm, nullptr);
  });
  EXPECT_THAT(results, Each(sparclSuccess));
  EXPECT_THAT(held, Each(std::vector<std::uint16_t>(100, 0x3f81)));
}

TEST(AllReduceMaskedApi, SeveralAreInFlightAtOnce) {
  ThreadRanks party(4);
  ASSERT_EQ(party.created(), sparclSuccess);
  constexpr std::size_t kCalls = 5, kCount = 10'000;
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const MaskHandle mask(kCount, 0.3, 1);
    const std::vector<std::uint64_t> indices = mask.indices();
    std::vector<std::vector<std::int64_t>> values(kCalls, std::vector<std::int64_t>(kCount, rank + 1));
    std::array<sparclRequest_t, kCalls> requests{};
    for (std::size_t c = 0; c < kCalls; ++c) {
      values[c][indices[0]] = static_cast<std::int64_t>(c);
      EXPECT_EQ(sparclIAllReduceMasked(values[c].data(), values[c].data(), kCount, sparclInt64, sparclSum, mask.get(), comm,
                                       &requests[c]),
                sparclSuccess);
    }
    EXPECT_EQ(sparclMaskSetStep(mask.get(), 1), sparclInvalidUsage);
    EXPECT_EQ(sparclMaskDestroy(mask.get()), sparclInvalidUsage);
    for (std::size_t c = kCalls; c-- > 0;) {
      if (const sparclResult_t result = sparclWait(&requests[c], nullptr); result != sparclSuccess) return result;
      EXPECT_EQ(values[c][indices[0]], static_cast<std::int64_t>(4 * c));
      EXPECT_EQ(values[c][indices[1]], 1 + 2 + 3 + 4);
    }
    return sparclMaskSetStep(mask.get(), 1);
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

TEST(AllReduceMaskedApi, BadArgumentsOfOneRankAreToldToAll) {
  using Refuse = sparclResult_t (*)(float*, sparclMask_t, sparclComm_t);
  struct Row {
    Refuse call;
    const char* text;
  };
  const Row rows[] = {
      {[](float* x, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 99, sparclFloat32, sparclSum, mask, comm, nullptr);
       },
       "count is 99, but the mask is of arrays of 100 elements"},
      {[](float*, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(nullptr, nullptr, 100, sparclFloat32, sparclSum, mask, comm, nullptr);
       },
       "sendbuff is NULL"},
      {[](float* x, sparclMask_t, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, sparclFloat32, sparclSum, nullptr, comm, nullptr);
       },
       "mask is NULL"},
      {[](float* x, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, sparclFloat32, static_cast<sparclRedOp_t>(9), mask, comm, nullptr);
       },
       "9 is no reduction"},
      {[](float* x, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, sparclBool, sparclAvg, mask, comm, nullptr);
       }, "sparclAvg of sparclBool"},
      {[](float* x, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, static_cast<sparclDataType_t>(77), sparclSum, mask, comm, nullptr);
       },
       "77 is no data type"},
  };
  for (const Row& row : rows) {
    ThreadRanks party(3);
    ASSERT_EQ(party.created(), sparclSuccess);
    std::vector<std::vector<float>> held(3, std::vector<float>(100, 2.0f));
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const MaskHandle mask(100, 0.5, 0);
      float* own = held[static_cast<std::size_t>(rank)].data();
      if (rank == 1) return row.call(own, mask.get(), comm);
      return sparclAllReduceMasked(own, own, 100, sparclFloat32, sparclSum, mask.get(), comm, nullptr);
    });
    EXPECT_THAT(results, Each(sparclInvalidArgument));
    EXPECT_THAT(std::string(sparclGetLastError(party.comm(0))), HasSubstr(row.text));
    EXPECT_THAT(held, Each(std::vector<float>(100, 2.0f)));
    // The communicator stays usable.
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      const MaskHandle mask(100, 1, 0);
      float* own = held[static_cast<std::size_t>(rank)].data();
      return sparclAllReduceMasked(own, own, 100, sparclFloat32, sparclMax, mask.get(), comm, nullptr);
    }),
                Each(sparclSuccess));
  }
}

TEST(MaskApi, RefusesWhatIsNone) {
  sparclMask_t mask = nullptr;
  const std::uint64_t descending[] = {5, 4};
  EXPECT_EQ(sparclMaskCreateIndices(&mask, descending, 2, 10), sparclInvalidArgument);
  EXPECT_THAT(std::string(sparclGetLastError(nullptr)), HasSubstr("sparclMaskCreateIndices: indices must ascend strictly"));
  EXPECT_EQ(sparclMaskCreateIndices(&mask, nullptr, 2, 10), sparclInvalidArgument);
  EXPECT_EQ(sparclMaskCreateIndices(nullptr, descending, 1, 10), sparclInvalidArgument);
  EXPECT_EQ(sparclMaskCreateRandom(&mask, 10, 1.01, 0), sparclInvalidArgument);
  EXPECT_EQ(sparclMaskCreateRandom(&mask, 10, std::nan(""), 0), sparclInvalidArgument);
  EXPECT_EQ(sparclMaskCreateBlocks(&mask, 10, 0, 0.5, 0), sparclInvalidArgument);
  EXPECT_EQ(sparclMaskSetStep(nullptr, 0), sparclInvalidArgument);
  EXPECT_EQ(sparclMaskDestroy(nullptr), sparclSuccess);
  EXPECT_EQ(mask, nullptr);
  const MaskHandle some(100, 0.5, 0);
  std::uint64_t room[10];
  std::size_t nnz = 0;
  EXPECT_EQ(sparclMaskGetIndices(some.get(), room, 10, &nnz), sparclTruncated);
  EXPECT_EQ(nnz, 50u);
}

TEST(AllReduceMaskedApi, InCpp) {
  std::vector<Comm> comms = Comm::local(2);
  std::vector<std::vector<double>> held{std::vector<double>(64, 1.5), std::vector<double>(64, 2.0)};
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < comms.size(); ++r) {
    threads.emplace_back([&, r] {
      Mask mask = Mask::random(64, 0.25, 3);
      EXPECT_EQ(mask.indices().size(), 16u);
      mask.set_step(2);
      EXPECT_EQ(comms[r].all_reduce_masked(held[r], std::span(held[r]), mask).nnz_out, 16u);
      Request request = comms[r].start_all_reduce_masked(held[r], std::span(held[r]), mask, sparclMax);
      request.wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(held[0].begin(), held[0].end(), 3.5), 16);
  EXPECT_EQ(std::count(held[0].begin(), held[0].end(), 1.5), 48);
}

}  // namespace
}  // namespace sparcl::test
