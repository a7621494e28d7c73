#include "examples/language_model/adamw.hpp"

#include <gtest/gtest.h>

#include <array>

namespace training {
namespace {

TEST(Adamw, TwoStepsAsByHand) {
  Adamw optimizer(1, {.beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 0, .weight_decay = 0.01F});
  std::array<float, 1> weight{1};
  // The first direction is the gradient's sign: 1 - 0.1 * (1 + 0.01 * 1).
  optimizer.step(weight, std::array<float, 1>{0.5F}, 0.1F);
  EXPECT_NEAR(weight[0], 0.899, 1e-6);
  // m = 0.9 * 0.05 - 0.1 * 0.25 = 0.02, / (1 - 0.81); v = 0.95 * 0.0125 + 0.05 * 0.0625 = 0.015, /
  // (1 - 0.9025); m / sqrt(v) = 0.26837; 0.899 - 0.1 * (0.26837 + 0.01 * 0.899).
  optimizer.step(weight, std::array<float, 1>{-0.25F}, 0.1F);
  EXPECT_NEAR(weight[0], 0.871264, 1e-6);
}

TEST(Adamw, DecaysWithoutAGradient) {
  Adamw optimizer(1, {.weight_decay = 0.1F});
  std::array<float, 1> weight{2};
  optimizer.step(weight, std::array<float, 1>{0}, 0.5F);
  EXPECT_FLOAT_EQ(weight[0], 2 - 0.5F * 0.1F * 2);
}

TEST(ScheduledRate, WarmsUpThenFallsToItsLastShare) {
  EXPECT_FLOAT_EQ(scheduled_rate(1, 0, 10, 1000), 0.1F);
  EXPECT_GT(scheduled_rate(1, 9, 10, 1000), 0.99F);
  EXPECT_FLOAT_EQ(scheduled_rate(1, 500, 10, 1000), 0.55F);
  EXPECT_FLOAT_EQ(scheduled_rate(1, 1000, 10, 1000), 0.1F);
  EXPECT_FLOAT_EQ(scheduled_rate(1, 500, 10, 1000, 0), 0.5F);
  EXPECT_EQ(scheduled_rate(1, 1000, 10, 1000, 0), 0);
}

}  // namespace
}  // namespace training
