#include "policy_gradient.hpp"

#include <cmath>
#include <language_model/text_sampler.hpp>

namespace training {

std::vector<Token> sample_group(Transformer& model, std::span<const float> weights,
                                std::span<const Token> text, SeededRandom& random) {
  const int context = model.shape().context;
  const int prompt_length = context - kNewTokens;
  const Batch prompt = draw_batch(text, 1, prompt_length, random);
  std::vector<Token> tokens(static_cast<std::size_t>(context * kGroup));
  for (std::size_t i = 0; i < static_cast<std::size_t>(prompt_length * kGroup); ++i)
    tokens[i] = prompt.tokens[i / kGroup];
  complete(model, weights, tokens, prompt_length, context, 1, random);
  return tokens;
}

std::vector<Token> join_groups(std::span<const Token> groups, int context) {
  const std::size_t group_size = static_cast<std::size_t>(context) * kGroup;
  const std::size_t group_count = groups.size() / group_size;
  std::vector<Token> joined(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t group = i / group_size;
    const std::size_t position = i % group_size / kGroup;
    joined[(position * group_count + group) * kGroup + i % kGroup] = groups[i];
  }
  return joined;
}

std::vector<double> upper_case_rewards(const CharText& text, std::span<const Token> tokens,
                                       int batch, int context) {
  const auto sequences = static_cast<std::size_t>(batch);
  std::vector<double> rewards(sequences);
  for (std::size_t i = static_cast<std::size_t>(context - kNewTokens) * sequences;
       i < tokens.size(); ++i) {
    const char character = text.character(tokens[i]);
    if (character >= 'A' && character <= 'Z') rewards[i % sequences] += 1.0 / kNewTokens;
  }
  return rewards;
}

std::vector<double> group_advantages(std::span<const double> rewards) {
  std::vector<double> advantages(rewards.begin(), rewards.end());
  for (std::size_t first = 0; first < advantages.size(); first += kGroup) {
    const std::span<double> group = std::span(advantages).subspan(first, kGroup);
    double mean = 0;
    double variance = 0;
    for (const double reward : group) mean += reward / kGroup;
    for (const double reward : group) variance += (reward - mean) * (reward - mean) / (kGroup - 1);
    for (double& value : group) value = (value - mean) / (std::sqrt(variance) + 1e-4);
  }
  return advantages;
}

}  // namespace training
