#include "examples/language_model/transformer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "examples/language_model/batch_loss.hpp"

namespace training {
namespace {

constexpr ModelShape kSmallShape{11, 16, 2, 2, 8};
constexpr int kBatch = 3;

// Weights big enough that every path matters: gains, biases and attention far from their initial
// values.
std::vector<float> strong_weights(const ParameterLayout& layout) {
  SeededRandom random(3, 1);
  std::vector<float> weights(layout.count());
  for (float& weight : weights) weight = 0.4F * static_cast<float>(random.normal());
  return weights;
}

Batch some_batch(int length) {
  SeededRandom random(3, 2);
  Batch batch;
  for (int i = 0; i < length * kBatch; ++i) {
    batch.tokens.push_back(static_cast<Token>(random.below(kSmallShape.vocabulary)));
    batch.targets.push_back(static_cast<Token>(random.below(kSmallShape.vocabulary)));
  }
  return batch;
}

class TransformerGradient : public testing::Test {
 protected:
  double loss_along(const std::vector<float>& direction, float distance) {
    std::vector<float> moved = weights_;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += distance * direction[i];
    return loss_of(model_, moved, batch_);
  }

  // Central difference against the inner product with the gradient, for a direction of length 1.
  void expect_slope(const std::vector<float>& direction, const std::string& what) {
    constexpr float kDistance = 0.01F;
    const double measured =
        (loss_along(direction, kDistance) - loss_along(direction, -kDistance)) / (2.0 * kDistance);
    const double computed =
        std::inner_product(direction.begin(), direction.end(), gradients_.begin(), 0.0);
    EXPECT_NEAR(measured, computed, 2e-4 + 0.005 * std::abs(computed)) << what;
  }

  Transformer model_{kSmallShape, kBatch};
  std::vector<float> weights_ = strong_weights(model_.layout());
  Batch batch_ = some_batch(kSmallShape.context);
  std::vector<float> gradients_ = std::vector<float>(weights_.size());
};

TEST_F(TransformerGradient, MatchesDifferencesOfEachTensor) {
  loss_of(model_, weights_, batch_, gradients_);
  SeededRandom random(3, 3);
  for (const TensorPlace& tensor : model_.layout().tensors()) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      std::vector<float> direction(weights_.size());
      double squares = 0;
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
        direction[i] = static_cast<float>(random.normal());
        squares += static_cast<double>(direction[i]) * direction[i];
      }
      for (float& value : direction) value /= static_cast<float>(std::sqrt(squares));
      expect_slope(direction, tensor.name);
    }
  }
}

TEST_F(TransformerGradient, MatchesDifferencesOfSingleWeights) {
  loss_of(model_, weights_, batch_, gradients_);
  SeededRandom random(3, 4);
  for (const TensorPlace& tensor : model_.layout().tensors()) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<float> direction(weights_.size());
      direction[tensor.offset + random.below(tensor.count)] = 1;
      expect_slope(direction, tensor.name);
    }
  }
}

TEST_F(TransformerGradient, IsAddedToWhatIsThere) {
  loss_of(model_, weights_, batch_, gradients_);
  std::vector<float> twice = gradients_;
  loss_of(model_, weights_, batch_, twice);
  for (std::size_t i = 0; i < twice.size(); ++i) ASSERT_NEAR(twice[i], 2 * gradients_[i], 1e-5);
}

std::vector<float> all_logits(Transformer& model, int length) {
  std::vector<float> logits;
  for (int position = 0; position < length; ++position) {
    const std::span<const float> part = model.logits(position);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

void expect_near(const std::vector<float>& left, const std::vector<float>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) ASSERT_NEAR(left[i], right[i], 1e-4) << i;
}

TEST(TransformerForward, InPiecesEqualsAtOnce) {
  Transformer model(kSmallShape, kBatch);
  const std::vector<float> weights = strong_weights(model.layout());
  const Batch batch = some_batch(kSmallShape.context);
  model.forward(weights, batch.tokens, 0, kSmallShape.context);
  const std::vector<float> at_once = all_logits(model, kSmallShape.context);

  Transformer in_pieces(kSmallShape, kBatch);
  in_pieces.forward(weights, batch.tokens, 0, 3);
  for (int position = 3; position < kSmallShape.context; ++position)
    in_pieces.forward(weights, batch.tokens, position, position + 1);
  expect_near(all_logits(in_pieces, kSmallShape.context), at_once);
}

TEST(TransformerForward, NeverSeesTheFutureNorOtherSequences) {
  Transformer model(kSmallShape, kBatch);
  const std::vector<float> weights = strong_weights(model.layout());
  Batch batch = some_batch(kSmallShape.context);
  model.forward(weights, batch.tokens, 0, kSmallShape.context);
  const std::vector<float> before = all_logits(model, kSmallShape.context);

  constexpr std::size_t kPosition = 5;
  constexpr std::size_t kSequence = 1;
  Token& changed = batch.tokens[kPosition * kBatch + kSequence];
  changed = static_cast<Token>((changed + 1) % kSmallShape.vocabulary);
  model.forward(weights, batch.tokens, 0, kSmallShape.context);
  const std::vector<float> after = all_logits(model, kSmallShape.context);
  for (std::size_t row = 0; row < static_cast<std::size_t>(kSmallShape.context) * kBatch; ++row) {
    const bool may_differ = row / kBatch >= kPosition && row % kBatch == kSequence;
    const auto begin = static_cast<std::ptrdiff_t>(row) * kSmallShape.vocabulary;
    const bool is_equal =
        std::equal(before.begin() + begin, before.begin() + begin + kSmallShape.vocabulary,
                   after.begin() + begin);
    EXPECT_EQ(is_equal, !may_differ) << "position " << row / kBatch << " sequence " << row % kBatch;
  }
}

TEST(CrossEntropy, IsTheLogarithmOfTheShare) {
  std::vector<float> logits{0, std::log(2.0F), std::log(5.0F)};
  EXPECT_NEAR(cross_entropy(logits, 1, 2), std::log(8.0 / 2.0), 1e-6);
  EXPECT_NEAR(logits[0], 2 * 1.0 / 8, 1e-6);
  EXPECT_NEAR(logits[1], 2 * (2.0 / 8 - 1), 1e-6);
  EXPECT_NEAR(logits[2], 2 * 5.0 / 8, 1e-6);
}

TEST(CrossEntropy, SurvivesHugeLogits) {
  std::vector<float> logits{1e30F, -1e30F};
  EXPECT_EQ(cross_entropy(logits, 0, 1), 0);
  EXPECT_EQ(logits, (std::vector<float>{0, 0}));
}

TEST(Gelu, SaturatesWithoutNan) {
  const std::vector<float> x{-1e4F, -60, 0, 60, 1e4F};
  std::vector<float> y(x.size());
  std::vector<float> slope(x.size(), 1.0F);
  gelu(x, y);
  gelu_backward(x, slope);
  EXPECT_EQ(y, (std::vector<float>{0, 0, 0, 60, 1e4F}));
  EXPECT_EQ(slope, (std::vector<float>{0, 0, 0.5F, 1, 1}));
}

}  // namespace
}  // namespace training
