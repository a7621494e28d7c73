#pragma once
// The trainer on rank 0: fp32 master weights, the optimiser, and the steps of both phases.

#include <cstdint>
#include <language_model/adamw.hpp>
#include <language_model/char_text.hpp>
#include <language_model/transformer.hpp>
#include <span>
#include <vector>

namespace training {

struct TrainerSettings {
  ModelShape shape;
  std::uint64_t seed;
  int steps;  // of pre-training
  int batch;
  float rate;
  float finetune_rate;
};

class Trainer {
 public:
  Trainer(const CharText& text, const TrainerSettings& settings);

  // `weights` of each call are the bf16 weights that all ranks hold, as fp32. Returns the loss.
  double pretrain_step(std::span<const float> weights, int step);

  struct PolicyResult {
    double loss;    // mean -log p of the sampled characters
    double reward;  // mean
  };
  PolicyResult policy_step(std::span<const float> weights, std::span<const Token> groups);

  // The gradient of one more batch, as of another data-parallel rank; changes no state.
  std::vector<float> gradient_of_rank(std::span<const float> weights, int rank);

  std::span<const float> master() const { return master_; }

 private:
  const CharText& text_;
  TrainerSettings settings_;
  Transformer model_;
  std::vector<float> master_, gradients_;
  Adamw pretrain_, finetune_;
  SeededRandom random_;
};

}  // namespace training
