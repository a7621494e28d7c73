#include "examples/rl_weight_sync/weight_sync_report.hpp"

#include <gtest/gtest.h>

namespace training {
namespace {

TEST(WeightSyncReport, QuantilesAreValuesThatOccurred) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({4}, 0.99), 4);
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(quantile(hundred, 0.99), 99);
  EXPECT_EQ(quantile(hundred, 1), 100);
}

TEST(WeightSyncReport, SumsStepsUp) {
  const std::vector<SyncStep> steps = {{1, 2, 0.25, {0, 2}, 10, 100, 200, 0.5},
                                       {2, 2, 0.75, {1, 1, 1}, 30, 300, 200, 1.5}};
  const SyncSummary all = summarise(steps, 100);
  EXPECT_DOUBLE_EQ(all.reward_first, 0.25);
  EXPECT_DOUBLE_EQ(all.reward_last, 0.75);
  EXPECT_DOUBLE_EQ(all.changed_share, 0.2);
  EXPECT_DOUBLE_EQ(all.update_bytes, 200);
  EXPECT_DOUBLE_EQ(all.dense_bytes, 200);
  EXPECT_DOUBLE_EQ(all.publish_median_s, 0.5);
  EXPECT_DOUBLE_EQ(all.lag_mean, 1);
  EXPECT_EQ(all.lag_max, 2U);
  EXPECT_EQ(summarise({}, 100).lag_mean, 0);
}

}  // namespace
}  // namespace training
