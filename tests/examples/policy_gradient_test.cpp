#include "examples/replicate_training/policy_gradient.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace training {
namespace {

TEST(GroupAdvantages, CompareWithTheirGroupOnly) {
  const std::vector<double> advantages =
      group_advantages(std::vector<double>{0, 0, 0, 1, 5, 5, 5, 5});
  const double deviation = std::sqrt((3 * 0.0625 + 0.5625) / 3) + 1e-4;
  EXPECT_NEAR(advantages[0], -0.25 / deviation, 1e-9);
  EXPECT_NEAR(advantages[3], 0.75 / deviation, 1e-9);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(advantages[i], 0);
}

TEST(JoinGroups, KeepsSequencesTogether) {
  constexpr int kContext = 3;
  std::vector<Token> groups;  // value = 10 * sequence + position
  for (int group = 0; group < 2; ++group) {
    for (int position = 0; position < kContext; ++position) {
      for (int member = 0; member < kGroup; ++member)
        groups.push_back(static_cast<Token>(10 * (group * kGroup + member) + position));
    }
  }
  const std::vector<Token> joined = join_groups(groups, kContext);
  for (std::size_t i = 0; i < joined.size(); ++i) EXPECT_EQ(joined[i], 10 * (i % 8) + i / 8);
}

TEST(UpperCaseRewards, CountOnlyTheCompletion) {
  const CharText text("aA");  // A is token 0, a is token 1
  constexpr int kContext = kNewTokens + 2;
  std::vector<Token> tokens(2 * kContext, Token{1});
  for (const std::size_t prompt : {0U, 1U, 2U, 3U}) tokens[prompt] = 0;
  for (std::size_t i = 4; i < tokens.size(); i += 2) tokens[i] = 0;
  tokens[5] = 0;
  EXPECT_EQ(upper_case_rewards(text, tokens, 2, kContext),
            (std::vector<double>{1, 1.0 / kNewTokens}));
}

TEST(SampleGroup, SharesThePromptAndVariesTheCompletions) {
  const ModelShape shape{20, 16, 1, 2, kNewTokens + 4};
  Transformer model(shape, kGroup);
  const std::vector<float> weights(
      model.layout().count());  // all zero: every character is as likely
  std::vector<Token> text;
  for (int i = 0; i < 100; ++i) text.push_back(static_cast<Token>(i % 20));
  SeededRandom random(1, 1);
  const std::vector<Token> group = sample_group(model, weights, text, random);
  ASSERT_EQ(group.size(), static_cast<std::size_t>(shape.context * kGroup));
  std::vector<std::vector<Token>> completions(kGroup);
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i / kGroup < 4)
      EXPECT_EQ(group[i], (group[0] + i / kGroup) % 20);
    else
      completions[i % kGroup].push_back(group[i]);
  }
  EXPECT_NE(completions[0], completions[1]);
}

}  // namespace
}  // namespace training
