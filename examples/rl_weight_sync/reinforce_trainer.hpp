#pragma once
// The trainer: fp32 master weights, their optimiser, and steps of both phases.

#include <cstdint>
#include <language_model/adamw.hpp>
#include <language_model/char_text.hpp>
#include <language_model/transformer.hpp>
#include <span>
#include <string>
#include <vector>

namespace training {

class ReinforceTrainer {
 public:
  ReinforceTrainer(const CharText& text, const ModelShape& shape, std::string letters,
                   std::uint64_t seed);

  // By cross entropy, so that samples look like text. Returns the last loss.
  double pretrain(int steps);

  // REINFORCE with a baseline (Williams 1992). weights: the published ones, as fp32. Each of
  // `rollouts` has kSequences texts. They count as sampled with these weights, although they may be
  // some versions old. Returns the mean reward.
  double policy_step(std::span<const float> weights, std::span<const std::vector<Token>> rollouts,
                     float rate);

  std::span<const float> master() const { return master_; }

 private:
  void add_gradient(std::span<const float> weights, std::span<const Token> tokens,
                    std::span<const double> advantages, double chosen);

  const CharText& text_;
  std::string letters_;
  std::uint64_t seed_;
  Transformer model_;
  std::vector<float> master_, gradients_;
  Adamw optimiser_;
};

}  // namespace training
