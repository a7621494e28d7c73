#include "trainer.hpp"

#include <algorithm>
#include <cmath>

#include "policy_gradient.hpp"

namespace training {
namespace {

constexpr int kWarmupSteps = 20;
enum Stream : std::uint64_t { kInitialise = 1, kBatches = 2, kOtherRanks = 1000 };

// What a layer adds to the stream begins small, so that depth does not amplify it (GPT-2's rule), and so does the head, so that all
// characters begin about as likely. The other deviations are heuristics from a few trials with one seed, not an optimum.
float initial_deviation(const TensorPlace& tensor, int layers) {
  if (tensor.name.ends_with("o.weight") || tensor.name.ends_with("down.weight"))
    return 0.02F / std::sqrt(2.0F * static_cast<float>(layers));
  if (tensor.name == "lm_head.weight") return 0.02F;
  return tensor.name.starts_with("layers.") ? 0.05F : 0.1F;
}

// Matrices are drawn; norms begin as the identity: gains (".weight" of one dimension) 1, biases 0.
std::vector<float> initial_weights(const ParameterLayout& layout, int layers, std::uint64_t seed) {
  SeededRandom random(seed, kInitialise);
  std::vector<float> weights(layout.count());
  for (const TensorPlace& tensor : layout.tensors()) {
    const std::span<float> values = std::span(weights).subspan(tensor.offset, tensor.count);
    if (tensor.shape.size() > 1) {
      const float deviation = initial_deviation(tensor, layers);
      for (float& value : values) value = deviation * static_cast<float>(random.normal());
    } else if (tensor.name.ends_with(".weight")) {
      std::fill(values.begin(), values.end(), 1.0F);
    }
  }
  return weights;
}

}  // namespace

double loss_of(Transformer& model, std::span<const float> weights, const Batch& batch, std::span<float> gradients) {
  const auto vocabulary = static_cast<std::size_t>(model.shape().vocabulary);
  const auto sequences = static_cast<std::size_t>(model.batch());
  const int length = static_cast<int>(batch.tokens.size() / sequences);
  const auto count = static_cast<double>(batch.tokens.size());
  model.forward(weights, batch.tokens, 0, length);
  double loss = 0;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const std::span<float> logits = model.logits(static_cast<int>(i / sequences)).subspan(i % sequences * vocabulary, vocabulary);
    loss += cross_entropy(logits, batch.targets[i], static_cast<float>(1 / count)) / count;
  }
  if (!gradients.empty()) model.backward(weights, batch.tokens, length, gradients);
  return loss;
}

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
  const Batch batch = draw_batch(text_.training(), model_.batch(), settings_.shape.context, random_);
  const double loss = loss_of(model_, weights, batch, gradients_);
  pretrain_.step(master_, gradients_, scheduled_rate(settings_.rate, step, kWarmupSteps, settings_.steps));
  return loss;
}

Trainer::PolicyResult Trainer::policy_step(std::span<const float> weights, std::span<const Token> groups) {
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
      const double loss = cross_entropy(logits, next, is_chosen ? static_cast<float>(advantages[i] / chosen) : 0.0F);
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
  (void)loss_of(model_, weights, draw_batch(text_.training(), model_.batch(), settings_.shape.context, random), gradients);
  return gradients;
}

}  // namespace training
