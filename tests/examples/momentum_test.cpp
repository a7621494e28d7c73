#include "examples/train_topk/momentum.hpp"

#include <gtest/gtest.h>

namespace training {
namespace {

TEST(ClipNorm, ScalesOnlyWhatIsLonger) {
  std::vector<float> gradient = {3, 4};
  clip_norm(gradient, 6);
  EXPECT_EQ(gradient, (std::vector<float>{3, 4}));
  clip_norm(gradient, 1);
  EXPECT_FLOAT_EQ(gradient[0], 0.6F);
  EXPECT_FLOAT_EQ(gradient[1], 0.8F);
}

TEST(Momentum, GathersSpeedAndSlowsDownWhatWasSent) {
  Momentum momentum(2);
  std::vector<float> gradient = {1, 1};
  momentum.apply(gradient);
  EXPECT_FLOAT_EQ(gradient[0], 1.9F);
  EXPECT_FLOAT_EQ(gradient[1], 1.9F);
  momentum.slow_down(std::vector<float>{0.5F, 0});
  gradient = {1, 1};
  momentum.apply(gradient);
  EXPECT_FLOAT_EQ(gradient[0], 1 + 0.9F * 1.45F);
  EXPECT_FLOAT_EQ(gradient[1], 1 + 0.9F * 1.9F);
}

}  // namespace
}  // namespace training
