#include "trainer.hpp"

#include <algorithm>
#include <cmath>
#include <language_model/batch_loss.hpp>
#include <language_model/initial_weights.hpp>

#include "policy_gradient.hpp"

namespace training {
namespace {

constexpr int kWarmupSteps = 20;
enum Stream : std::uint64_t { kBatches = 2, kOtherRanks = 1000 };

}  // namespace

Trainer::Trainer(const CharText& text, const TrainerSettings& settings)
    : text_(text),
      settings_(settings),
      model_(settings.shape, settings.batch),
      master_(initial_weights(model_.layout(), settings.shape.layers, settings.seed)),
      gradients_(master_.size()),
      pretrain_(master_.size(), {.weight_decay = 0.01F}),
      finetune_(master_.size(), {}),
      random_(settings.seed, kBatches) {}

double Trainer::pretrain_step(std::span<const float> weights, int step) {
  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
  const Batch batch =
      draw_batch(text_.training(), model_.batch(), settings_.shape.context, random_);
  const double loss = loss_of(model_, weights, batch, gradients_);
  pretrain_.step(master_, gradients_,
                 scheduled_rate(settings_.rate, step, kWarmupSteps, settings_.steps));
  return loss;
}

Trainer::PolicyResult Trainer::policy_step(std::span<const float> weights,
                                           std::span<const Token> groups) {
  const int context = settings_.shape.context;
  const int batch = static_cast<int>(groups.size()) / context;
  if (model_.batch() != batch) model_ = Transformer(settings_.shape, batch);
  const std::vector<Token> tokens = join_groups(groups, context);
  const std::vector<double> rewards = upper_case_rewards(text_, tokens, batch, context);
  const std::vector<double> advantages = group_advantages(rewards);

  // Position i predicts token i + 1; only the completions' characters were chosen by the policy.
  const auto vocabulary = static_cast<std::size_t>(settings_.shape.vocabulary);
  const auto sequences = static_cast<std::size_t>(batch);
  const double chosen = static_cast<double>(kNewTokens) * batch;
  PolicyResult result{0, 0};
  model_.forward(weights, tokens, 0, context - 1);
  for (int position = 0; position < context - 1; ++position) {
    const bool is_chosen = position + 1 >= context - kNewTokens;
    for (std::size_t i = 0; i < sequences; ++i) {
      const std::span<float> logits = model_.logits(position).subspan(i * vocabulary, vocabulary);
      const Token next = tokens[static_cast<std::size_t>(position + 1) * sequences + i];
      const double loss = cross_entropy(
          logits, next, is_chosen ? static_cast<float>(advantages[i] / chosen) : 0.0F);
      if (is_chosen) result.loss += loss / chosen;
    }
  }
  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
  model_.backward(weights, tokens, context - 1, gradients_);
  finetune_.step(master_, gradients_, settings_.finetune_rate);
  for (const double reward : rewards) result.reward += reward / batch;
  return result;
}

std::vector<float> Trainer::gradient_of_rank(std::span<const float> weights, int rank) {
  SeededRandom random(settings_.seed, kOtherRanks + static_cast<std::uint64_t>(rank));
  std::vector<float> gradients(master_.size());
  (void)loss_of(model_, weights,
                draw_batch(text_.training(), model_.batch(), settings_.shape.context, random),
                gradients);
  return gradients;
}

}  // namespace training
