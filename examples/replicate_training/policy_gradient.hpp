#pragma once
// The second phase, like RL fine-tuning. Completions of a prompt are sampled in groups and
// rewarded. Each becomes likelier by how much its reward exceeds the group's mean (GRPO, Shao et
// al. 2024, on-policy, without a KL term). The reward is the share of upper-case letters.

#include <language_model/char_text.hpp>
#include <language_model/transformer.hpp>
#include <span>
#include <vector>

namespace training {

constexpr int kGroup = 4;       // completions of one prompt
constexpr int kNewTokens = 16;  // characters that a completion adds

// One group: context x kGroup tokens, time-major; the last kNewTokens positions are the
// completions.
std::vector<Token> sample_group(Transformer& model, std::span<const float> weights,
                                std::span<const Token> text, SeededRandom& random);

// Joins consecutive gathered groups to one time-major batch.
std::vector<Token> join_groups(std::span<const Token> groups, int context);

std::vector<double> upper_case_rewards(const CharText& text, std::span<const Token> tokens,
                                       int batch, int context);

// (reward - the group's mean) / (the group's deviation + 1e-4)
std::vector<double> group_advantages(std::span<const double> rewards);

}  // namespace training
