#include "examples/rl_weight_sync/letter_reward.hpp"

#include <gtest/gtest.h>

#include "examples/rl_weight_sync/sync_options.hpp"

namespace training {
namespace {

TEST(LetterReward, CountsOnlyWhatWasSampled) {
  const CharText text("abc");
  constexpr std::size_t kTexts = 2, kPrompt = 3;
  std::vector<Token> tokens((kPrompt + kNewCharacters) * kTexts, Token{2});
  for (std::size_t i = 0; i < kPrompt * kTexts; ++i) tokens[i] = 0;  // prompts of a
  tokens[kPrompt * kTexts + 1] = 0;  // the second text: an a and a b
  tokens[tokens.size() - 1] = 1;
  EXPECT_EQ(letter_rewards(text, "ab", tokens, kTexts),
            (std::vector<double>{0, 2.0 / kNewCharacters}));
  EXPECT_EQ(letter_rewards(text, "a", tokens, kTexts),
            (std::vector<double>{0, 1.0 / kNewCharacters}));
}

TEST(LetterReward, AdvantagesAreAroundTheMean) {
  const std::vector<double> advantages = advantages_of(std::vector<double>{0, 1, 0, 1});
  EXPECT_NEAR(advantages[0], -0.5 / (0.5 + 1e-4), 1e-12);
  EXPECT_NEAR(advantages[3], 0.5 / (0.5 + 1e-4), 1e-12);
  EXPECT_EQ(advantages_of(std::vector<double>{3, 3}), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace training
