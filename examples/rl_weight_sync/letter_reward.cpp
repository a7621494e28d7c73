#include "letter_reward.hpp"

#include <cmath>

#include "sync_options.hpp"

namespace training {

std::vector<double> letter_rewards(const CharText& text, const std::string& letters,
                                   std::span<const Token> tokens, int sequences) {
  const auto count = static_cast<std::size_t>(sequences);
  std::vector<double> rewards(count);
  for (std::size_t i = tokens.size() - kNewCharacters * count; i < tokens.size(); ++i) {
    if (letters.find(text.character(tokens[i])) != std::string::npos)
      rewards[i % count] += 1.0 / kNewCharacters;
  }
  return rewards;
}

std::vector<double> advantages_of(std::span<const double> rewards) {
  const auto count = static_cast<double>(rewards.size());
  double mean = 0;
  double variance = 0;
  for (const double reward : rewards) mean += reward / count;
  for (const double reward : rewards) variance += (reward - mean) * (reward - mean) / count;
  std::vector<double> advantages;
  for (const double reward : rewards)
    advantages.push_back((reward - mean) / (std::sqrt(variance) + 1e-4));
  return advantages;
}

}  // namespace training
