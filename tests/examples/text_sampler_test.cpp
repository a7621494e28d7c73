#include "examples/language_model/text_sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace training {
namespace {

constexpr ModelShape kShape{11, 16, 1, 2, 8};

std::vector<float> some_weights(const ParameterLayout& layout) {
  SeededRandom random(5, 1);
  std::vector<float> weights(layout.count());
  for (float& weight : weights) weight = 0.5F * static_cast<float>(random.normal());
  return weights;
}

std::vector<Token> text_of(std::uint64_t seed) {
  Transformer model(kShape, 1);
  SeededRandom random(seed, 2);
  return write_on(model, some_weights(model.layout()), std::vector<Token>{1, 2, 3}, 40, 1, random);
}

TEST(TextSampler, SameSeedSameText) {
  EXPECT_EQ(text_of(1), text_of(1));
  EXPECT_NE(text_of(1), text_of(2));
}

TEST(TextSampler, WritesBeyondTheContext) {
  const std::vector<Token> text = text_of(1);
  EXPECT_EQ(text.size(), 40U);
  for (const Token token : text) EXPECT_LT(token, kShape.vocabulary);
}

TEST(TextSampler, CompletionsKeepTheirPrompts) {
  Transformer model(kShape, 2);
  SeededRandom random(1, 1);
  std::vector<Token> tokens(16, Token{0});
  for (std::size_t i = 0; i < 8; ++i) tokens[i] = static_cast<Token>(i);
  complete(model, some_weights(model.layout()), tokens, 4, 8, 1, random);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(tokens[i], i);
}

TEST(DrawCharacter, FollowsTheLogits) {
  SeededRandom random(9, 9);
  const std::array<float, 3> logits{0, std::log(3.0F), -1000};
  std::array<int, 3> counts{};
  for (int i = 0; i < 4000; ++i) ++counts[draw_character(logits, 1, random)];
  EXPECT_NEAR(counts[1], 3000, 150);
  EXPECT_EQ(counts[2], 0);
}

TEST(DrawCharacter, LowTemperatureTakesTheLikeliest) {
  SeededRandom random(9, 9);
  const std::array<float, 3> logits{0.1F, 0.2F, 0};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(draw_character(logits, 1e-4F, random), 1);
}

TEST(SeededRandom, StreamsAreTheirOwnAndRepeatable) {
  SeededRandom first(1, 1);
  SeededRandom again(1, 1);
  SeededRandom other(1, 2);
  const std::uint64_t value = first.next();
  EXPECT_EQ(value, again.next());
  EXPECT_NE(value, other.next());
}

TEST(SeededRandom, NormalHasMeanZeroAndDeviationOne) {
  SeededRandom random(4, 4);
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 20'000;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.03);
  EXPECT_NEAR(squares / kCount, 1, 0.05);
}

}  // namespace
}  // namespace training
