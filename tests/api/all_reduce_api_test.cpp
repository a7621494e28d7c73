// The masked all-reduce as users reach it: the C interface of the shared library, ranks as threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
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
        for (std::size_t i = 0; i < count; ++i)
          sent[r][i] = static_cast<float>((i * 7 + r * 13) % 1'000);
        held[r].assign(count, -1.0f);
      }
      std::vector<sparclReport_t> reports(sent.size());
      const auto results = party.run([&](int rank, sparclComm_t comm) {
        const auto r = static_cast<std::size_t>(rank);
        const MaskHandle mask(count, 0.1, 5);
        const sparclResult_t result =
            sparclAllReduceMasked(sent[r].data(), held[r].data(), count, sparclFloat32, sparclSum,
                                  mask.get(), nullptr, nullptr, comm, nullptr);
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
        EXPECT_LE(report.bytes_sent,
                  static_cast<std::uint64_t>(ranks) * indices.size() * sizeof(float));
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
    return sparclAllReduceMasked(own.data(), own.data(), own.size(), sparclBfloat16, sparclAvg,
                                 mask.get(), nullptr, nullptr, comm, nullptr);
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
    std::vector<std::vector<std::int64_t>> values(kCalls,
                                                  std::vector<std::int64_t>(kCount, rank + 1));
    std::array<sparclRequest_t, kCalls> requests{};
    for (std::size_t c = 0; c < kCalls; ++c) {
      values[c][indices[0]] = static_cast<std::int64_t>(c);
      EXPECT_EQ(
          sparclIAllReduceMasked(values[c].data(), values[c].data(), kCount, sparclInt64, sparclSum,
                                 mask.get(), nullptr, nullptr, comm, nullptr, &requests[c]),
          sparclSuccess);
    }
    EXPECT_EQ(sparclMaskSetStep(mask.get(), 1), sparclInvalidUsage);
    EXPECT_EQ(sparclMaskDestroy(mask.get()), sparclInvalidUsage);
    for (std::size_t c = kCalls; c-- > 0;) {
      if (const sparclResult_t result = sparclWait(&requests[c], nullptr); result != sparclSuccess)
        return result;
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
         return sparclAllReduceMasked(x, x, 99, sparclFloat32, sparclSum, mask, nullptr, nullptr,
                                      comm, nullptr);
       },
       "count is 99, but the mask is of arrays of 100 elements"},
      {[](float*, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(nullptr, nullptr, 100, sparclFloat32, sparclSum, mask,
                                      nullptr, nullptr, comm, nullptr);
       },
       "sendbuff is NULL"},
      {[](float* x, sparclMask_t, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, sparclFloat32, sparclSum, nullptr, nullptr,
                                      nullptr, comm, nullptr);
       },
       "mask is NULL"},
      {[](float* x, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, sparclFloat32, static_cast<sparclRedOp_t>(9), mask,
                                      nullptr, nullptr, comm, nullptr);
       },
       "9 is no reduction"},
      {[](float* x, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, sparclBool, sparclAvg, mask, nullptr, nullptr,
                                      comm, nullptr);
       },
       "sparclAvg of sparclBool"},
      {[](float* x, sparclMask_t mask, sparclComm_t comm) {
         return sparclAllReduceMasked(x, x, 100, static_cast<sparclDataType_t>(77), sparclSum, mask,
                                      nullptr, nullptr, comm, nullptr);
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
      return sparclAllReduceMasked(own, own, 100, sparclFloat32, sparclSum, mask.get(), nullptr,
                                   nullptr, comm, nullptr);
    });
    EXPECT_THAT(results, Each(sparclInvalidArgument));
    EXPECT_THAT(std::string(sparclGetLastError(party.comm(0))), HasSubstr(row.text));
    EXPECT_THAT(held, Each(std::vector<float>(100, 2.0f)));
    // The communicator stays usable.
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      const MaskHandle mask(100, 1, 0);
      float* own = held[static_cast<std::size_t>(rank)].data();
      return sparclAllReduceMasked(own, own, 100, sparclFloat32, sparclMax, mask.get(), nullptr,
                                   nullptr, comm, nullptr);
    }),
                Each(sparclSuccess));
  }
}

TEST(MaskApi, RefusesWhatIsNone) {
  sparclMask_t mask = nullptr;
  const std::uint64_t descending[] = {5, 4};
  EXPECT_EQ(sparclMaskCreateIndices(&mask, descending, 2, 10), sparclInvalidArgument);
  EXPECT_THAT(std::string(sparclGetLastError(nullptr)),
              HasSubstr("sparclMaskCreateIndices: indices must ascend strictly"));
  EXPECT_EQ(sparclMaskCreateIndices(&mask, nullptr, 2, 10), sparclInvalidArgument);
  EXPECT_EQ(sparclMaskCreateIndices(&mask, descending, SIZE_MAX, 10), sparclInvalidArgument);
  EXPECT_THAT(std::string(sparclGetLastError(nullptr)),
              HasSubstr("nnz is 18446744073709551615: no array in memory"));
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

// What an element adds over the steps is in the results and the residuals. Multiples of 1/8 are
// summed exactly in float32; bfloat16 rounds them, and what it rounds off stays.
template <class T>
void expect_nothing_lost(int ranks, sparclDataType_t type, const std::function<T(float)>& of,
                         const std::function<float(T)>& number) {
  constexpr std::size_t kCount = 70'000, kSteps = 3;
  ThreadRanks party(ranks);
  ASSERT_EQ(party.created(), sparclSuccess);
  std::vector<double> given(kCount), got(kCount);
  std::vector<std::vector<float>> residuals(static_cast<std::size_t>(ranks));
  std::vector<std::vector<T>> sums(residuals.size());
  std::vector<sparclFeedback_t> feedbacks(residuals.size());
  for (sparclFeedback_t& feedback : feedbacks)
    ASSERT_EQ(sparclFeedbackCreate(&feedback, kCount, type), sparclSuccess);
  for (std::size_t step = 0; step < kSteps; ++step) {
    const auto gradient = [step](std::size_t r, std::size_t i) {
      return static_cast<float>((i * 31 + r * 17 + step * 5) % 901) / 8;
    };
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const auto r = static_cast<std::size_t>(rank);
      sparclMask_t mask = nullptr;
      (void)sparclMaskCreateRandom(&mask, kCount, 0.3, 8);
      (void)sparclMaskSetStep(mask, step);
      std::vector<T> sent(kCount);
      for (std::size_t i = 0; i < kCount; ++i) sent[i] = of(gradient(r, i));
      sums[r].assign(kCount, T{});
      sparclRequest_t request = nullptr;
      const sparclResult_t result =
          step == 1 ? sparclIAllReduceMasked(sent.data(), sums[r].data(), kCount, type, sparclSum,
                                             mask, feedbacks[r], nullptr, comm, nullptr, &request)
                    : sparclAllReduceMasked(sent.data(), sums[r].data(), kCount, type, sparclSum,
                                            mask, feedbacks[r], nullptr, comm, nullptr);
      const sparclResult_t waited = request != nullptr ? sparclWait(&request, nullptr) : result;
      (void)sparclMaskDestroy(mask);
      return waited;
    });
    ASSERT_THAT(results, Each(sparclSuccess)) << sparclGetLastError(party.comm(0));
    for (std::size_t i = 0; i < kCount; ++i) {
      for (std::size_t r = 0; r < residuals.size(); ++r)
        given[i] += static_cast<double>(number(of(gradient(r, i))));
      got[i] += static_cast<double>(number(sums[0][i]));
    }
    EXPECT_THAT(sums, Each(sums[0]));
  }
  std::size_t waiting = 0;
  for (std::size_t r = 0; r < residuals.size(); ++r) {
    const void* residual = nullptr;
    ASSERT_EQ(sparclFeedbackGetResidual(feedbacks[r], &residual, nullptr, nullptr), sparclSuccess);
    residuals[r].assign(static_cast<const float*>(residual),
                        static_cast<const float*>(residual) + kCount);
    sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
    ASSERT_EQ(sparclFeedbackStats(feedbacks[r], &stats), sparclSuccess);
    EXPECT_EQ(stats.calls, kSteps);
    EXPECT_EQ(stats.selected, kCount * 3 / 10);
    EXPECT_EQ(stats.sent, stats.selected);
    EXPECT_GT(stats.sent_mass, 0);
    ASSERT_EQ(sparclFeedbackDestroy(feedbacks[r]), sparclSuccess);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    double left = 0;
    for (const std::vector<float>& residual : residuals) left += static_cast<double>(residual[i]);
    waiting += left != 0;
    // The sum of what bfloat16 ranks have sent is rounded once a step, to 8 bits.
    const double slack = sizeof(T) == 2 ? kSteps * given[i] / 256 : 0;
    ASSERT_NEAR(got[i] + left, given[i], slack) << "element " << i;
  }
  EXPECT_GT(waiting, kCount / 4);
}

std::uint16_t bfloat16_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float of_bfloat16(std::uint16_t value) {
  const std::uint32_t bits = std::uint32_t{value} << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

TEST(AllReduceMaskedApi, WithFeedbackNothingIsLost) {
  for (const int ranks : {1, 2, 3, 5}) {
    SCOPED_TRACE(ranks);
    expect_nothing_lost<float>(
        ranks, sparclFloat32, [](float value) { return value; }, [](float value) { return value; });
    expect_nothing_lost<std::uint16_t>(ranks, sparclBfloat16, bfloat16_of, of_bfloat16);
  }
}

TEST(AllReduceMaskedApi, AFeedbackMustFitTheCall) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  struct WrongRow {
    std::size_t count;
    sparclDataType_t datatype;
    sparclRedOp_t op;
    const char* text;
  };
  for (const WrongRow& row :
       {WrongRow{101, sparclFloat32, sparclSum,
                 "the feedback is of 101 elements of float32, the call of 100 of float32"},
        WrongRow{100, sparclFloat64, sparclSum, "the feedback is of 100 elements of float64"},
        WrongRow{100, sparclFloat32, sparclMax, "op: with a feedback sparclSum or sparclAvg"}}) {
    std::vector<std::vector<float>> held(2, std::vector<float>(100, 2.0f));
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      const MaskHandle mask(100, 0.5, 0);
      sparclFeedback_t feedback = nullptr;
      (void)sparclFeedbackCreate(&feedback, row.count, row.datatype);
      float* own = held[static_cast<std::size_t>(rank)].data();
      const sparclResult_t result =
          sparclAllReduceMasked(own, own, 100, sparclFloat32, row.op, mask.get(),
                                rank == 1 ? feedback : nullptr, nullptr, comm, nullptr);
      (void)sparclFeedbackDestroy(feedback);
      return result;
    });
    EXPECT_THAT(results, Each(sparclInvalidArgument));
    EXPECT_THAT(std::string(sparclGetLastError(party.comm(0))), HasSubstr(row.text));
    EXPECT_THAT(held, Each(std::vector<float>(100, 2.0f)));
  }
}

TEST(AllReduceMaskedApi, WithFeedbackAllOfTheInputIsRead) {
  ThreadRanks party(2);
  ASSERT_EQ(party.created(), sparclSuccess);
  const auto results = party.run([&](int, sparclComm_t comm) {
    const MaskHandle none(100, 0, 0);
    sparclFeedback_t feedback = nullptr;
    (void)sparclFeedbackCreate(&feedback, 100, sparclFloat32);
    const sparclResult_t result =
        sparclAllReduceMasked(nullptr, nullptr, 100, sparclFloat32, sparclSum, none.get(), feedback,
                              nullptr, comm, nullptr);
    (void)sparclFeedbackDestroy(feedback);
    return result;
  });
  EXPECT_THAT(results, Each(sparclInvalidArgument));
  EXPECT_THAT(std::string(sparclGetLastError(party.comm(0))), HasSubstr("sendbuff is NULL"));
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
      Request request =
          comms[r].start_all_reduce_masked(held[r], std::span(held[r]), mask, sparclMax);
      request.wait();
      Feedback feedback = Feedback::of<double>(64);
      std::vector<double> ones(64, 1), sums(64);
      EXPECT_EQ(comms[r].all_reduce_masked(ones, std::span(sums), mask, &feedback).nnz_out, 16u);
      EXPECT_EQ(std::count(sums.begin(), sums.end(), 2.0), 16);
      EXPECT_EQ(
          std::count(feedback.residual<double>().begin(), feedback.residual<double>().end(), 1.0),
          48);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(held[0].begin(), held[0].end(), 3.5), 16);
  EXPECT_EQ(std::count(held[0].begin(), held[0].end(), 1.5), 48);
}

}  // namespace
}  // namespace sparcl::test
