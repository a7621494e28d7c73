#include "reinforce_trainer.hpp"

#include <algorithm>
#include <language_model/batch_loss.hpp>
#include <language_model/initial_weights.hpp>
#include <utility>

#include "letter_reward.hpp"
#include "sync_options.hpp"

namespace training {
namespace {

constexpr float kPretrainRate = 5e-3F;  // heuristic, for small models
constexpr int kWarmupSteps = 20;
constexpr std::uint64_t kBatches = 2;  // a stream of random numbers

}  // namespace

ReinforceTrainer::ReinforceTrainer(const CharText& text, const ModelShape& shape,
                                   std::string letters, std::uint64_t seed)
    : text_(text),
      letters_(std::move(letters)),
      seed_(seed),
      model_(shape, kSequences),
      master_(initial_weights(model_.layout(), shape.layers, seed)),
      gradients_(master_.size()),
      optimiser_(master_.size(), {}) {}

double ReinforceTrainer::pretrain(int steps) {
  SeededRandom random(seed_, kBatches);
  Adamw optimiser(master_.size(), {.weight_decay = 0.01F});
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    std::fill(gradients_.begin(), gradients_.end(), 0.0F);
    const Batch batch = draw_batch(text_.training(), kSequences, model_.shape().context, random);
    loss = loss_of(model_, master_, batch, gradients_);
    optimiser.step(master_, gradients_, scheduled_rate(kPretrainRate, step, kWarmupSteps, steps));
  }
  return loss;
}

double ReinforceTrainer::policy_step(std::span<const float> weights,
                                     std::span<const std::vector<Token>> rollouts, float rate) {
  std::vector<double> rewards;
  for (const std::vector<Token>& tokens : rollouts) {
    const std::vector<double> some = letter_rewards(text_, letters_, tokens, kSequences);
    rewards.insert(rewards.end(), some.begin(), some.end());
  }
  const std::vector<double> advantages = advantages_of(rewards);
  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
  const double chosen = static_cast<double>(rewards.size()) * kNewCharacters;
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    add_gradient(weights, rollouts[i], std::span(advantages).subspan(i * kSequences, kSequences),
                 chosen);
  }
  optimiser_.step(master_, gradients_, rate);
  double mean = 0;
  for (const double reward : rewards) mean += reward / static_cast<double>(rewards.size());
  return mean;
}

// Position i predicts token i + 1; only the last kNewCharacters were chosen by the policy.
void ReinforceTrainer::add_gradient(std::span<const float> weights, std::span<const Token> tokens,
                                    std::span<const double> advantages, double chosen) {
  const int context = model_.shape().context;
  const auto vocabulary = static_cast<std::size_t>(model_.shape().vocabulary);
  model_.forward(weights, tokens, 0, context - 1);
  for (int position = 0; position < context - 1; ++position) {
    const bool is_chosen = position + 1 >= context - kNewCharacters;
    for (std::size_t i = 0; i < kSequences; ++i) {
      const std::span<float> logits = model_.logits(position).subspan(i * vocabulary, vocabulary);
      const Token next = tokens[static_cast<std::size_t>(position + 1) * kSequences + i];
      (void)cross_entropy(logits, next,
                          is_chosen ? static_cast<float>(advantages[i] / chosen) : 0.0F);
    }
  }
  model_.backward(weights, tokens, context - 1, gradients_);
}

}  // namespace training
