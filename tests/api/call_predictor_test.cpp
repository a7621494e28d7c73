// What a report says that the call would take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sparcl/sparcl.h"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;

// By what this rank's calls took, not by the exchange alone: once there are five, it is the median
// of the last five.
TEST(SecondsPredicted, IsTheMedianOfTheLastFiveCallsOfTheKind) {
  constexpr int kCalls = 12;
  constexpr std::size_t kCount = 20'000;
  ThreadRanks party(2);
  const auto results = party.run([&](int, sparclComm_t comm) {
    sparclMask_t mask = nullptr;
    sparclFeedback_t feedback = nullptr;
    EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.1, 1), sparclSuccess);
    EXPECT_EQ(sparclFeedbackCreate(&feedback, kCount, sparclFloat32), sparclSuccess);
    std::vector<float> data(kCount, 1), sum(kCount);
    std::vector<double> top_k, masked;
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    const auto expect_median_of = [&](std::vector<double>& seconds) {
      EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
      EXPECT_GT(report.seconds_predicted, 0);
      if (seconds.size() >= 5) {
        std::vector<double> last(seconds.end() - 5, seconds.end());
        std::sort(last.begin(), last.end());
        EXPECT_NEAR(report.seconds_predicted, last[2], 1e-6 * last[2]);
      }
      seconds.push_back(report.seconds);
    };
    for (int call = 0; call < kCalls; ++call) {
      const sparclResult_t selected =
          sparclAllReduceTopK(data.data(), sum.data(), kCount, 200, sparclFloat32, sparclSum,
                              feedback, nullptr, comm, nullptr);
      EXPECT_EQ(selected, sparclSuccess);
      expect_median_of(top_k);
      EXPECT_EQ(sparclAllReduceMasked(data.data(), sum.data(), kCount, sparclFloat32, sparclSum,
                                      mask, nullptr, nullptr, comm, nullptr),
                sparclSuccess);
      expect_median_of(masked);
    }
    // Of another size: by the nearest one.
    EXPECT_EQ(sparclAllReduceTopK(data.data(), sum.data(), kCount / 4, 50, sparclFloat32, sparclSum,
                                  nullptr, nullptr, comm, nullptr),
              sparclSuccess);
    EXPECT_EQ(sparclCommLastReport(comm, &report), sparclSuccess);
    EXPECT_GT(report.seconds_predicted, 0);
    EXPECT_LT(report.seconds_predicted, *std::max_element(top_k.begin(), top_k.end()));
    EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
    return sparclFeedbackDestroy(feedback);
  });
  EXPECT_THAT(results, Each(sparclSuccess));
}

}  // namespace
}  // namespace sparcl::test
