#include "examples/replicate_training/trainer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "examples/language_model/bf16_rounding.hpp"
#include "examples/replicate_training/policy_gradient.hpp"

namespace training {
namespace {

std::string repeated_text() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "The quick brown fox. ";
  return text;
}

TrainerSettings settings_of(const CharText& text) {
  return {{text.vocabulary(), 32, 1, 1, 24}, 7, 60, 8, 5e-3F, 1e-6F};
}

// The bf16 weights that everybody computes with.
std::vector<float> rounded(std::span<const float> master) {
  std::vector<float> values(master.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_float(to_bf16(master[i]));
  return values;
}

TEST(Trainer, LossFalls) {
  const CharText text(repeated_text());
  Trainer trainer(text, settings_of(text));
  const double first = trainer.pretrain_step(rounded(trainer.master()), 0);
  double last = first;
  for (int step = 1; step < 60; ++step)
    last = trainer.pretrain_step(rounded(trainer.master()), step);
  EXPECT_NEAR(first, std::log(text.vocabulary()), 0.2);
  EXPECT_LT(last, 0.6 * first);
}

TEST(Trainer, SameSeedSameWeights) {
  const CharText text(repeated_text());
  Trainer one(text, settings_of(text));
  Trainer other(text, settings_of(text));
  for (int step = 0; step < 3; ++step) {
    one.pretrain_step(rounded(one.master()), step);
    other.pretrain_step(rounded(other.master()), step);
  }
  EXPECT_TRUE(std::equal(one.master().begin(), one.master().end(), other.master().begin()));
}

TEST(Trainer, PolicyStepMakesTheRewardedLikelier) {
  const CharText text(repeated_text());
  TrainerSettings settings = settings_of(text);
  settings.finetune_rate = 1e-3F;
  Trainer trainer(text, settings);
  Transformer sampler(settings.shape, kGroup);
  SeededRandom random(1, 1);
  double early = 0;
  double late = 0;
  for (int step = 0; step < 60; ++step) {
    const std::vector<float> weights = rounded(trainer.master());
    std::vector<Token> groups;
    for (int group = 0; group < 4; ++group) {
      const std::vector<Token> sampled = sample_group(sampler, weights, text.training(), random);
      groups.insert(groups.end(), sampled.begin(), sampled.end());
    }
    (step < 30 ? early : late) += trainer.policy_step(weights, groups).reward / 30;
  }
  EXPECT_GT(late, early + 0.05);
}

TEST(Trainer, ATinyRateChangesFewBf16Weights) {
  const CharText text(repeated_text());
  Trainer trainer(text, settings_of(text));
  Transformer sampler(settings_of(text).shape, kGroup);
  SeededRandom random(1, 1);
  const std::vector<float> before = rounded(trainer.master());
  (void)trainer.policy_step(before, sample_group(sampler, before, text.training(), random));
  const std::vector<float> after = rounded(trainer.master());
  std::size_t changed = 0;
  for (std::size_t i = 0; i < after.size(); ++i) changed += after[i] != before[i] ? 1 : 0;
  EXPECT_GT(changed, 0U);
  EXPECT_LT(changed, after.size() / 10);
}

TEST(Trainer, GradientsOfRanksDifferAndChangeNothing) {
  const CharText text(repeated_text());
  Trainer trainer(text, settings_of(text));
  const std::vector<float> before(trainer.master().begin(), trainer.master().end());
  const std::vector<float> first = trainer.gradient_of_rank(before, 0);
  EXPECT_EQ(first, trainer.gradient_of_rank(before, 0));
  EXPECT_NE(first, trainer.gradient_of_rank(before, 1));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), trainer.master().begin()));
}

}  // namespace
}  // namespace training
