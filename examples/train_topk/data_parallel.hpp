#pragma once
// One training: each rank computes the gradient of its own batch, the ranks exchange gradients, and
// all make the same step.

#include <cstdint>
#include <language_model/batch_loss.hpp>
#include <optional>
#include <vector>

#include "gradient_exchange.hpp"
#include "momentum.hpp"

namespace training {

struct TrainingSettings {
  ModelShape shape{};
  std::uint64_t seed = 7;
  int steps = 7200;
  int batch = 2;  // sequences of a rank
  float rate = 0.4F;
};

// The figures of one rank.
struct StepFigures {
  double loss = 0;     // mean over the ranks' batches
  double seconds = 0;  // of the exchange with its preparation: drawing masks, keeping residuals
  double step_seconds = 0;
  std::optional<sparcl::Report> report;
};

class DataParallel {
 public:
  // text, comm and exchange must outlive it. All ranks give the same settings. is_corrected: each
  // rank has a momentum of its own gradients, and the exchange sends that ("momentum correction"),
  // because late values would have no momentum otherwise. Without it: the momentum is that of the
  // mean.
  DataParallel(sparcl::Comm& comm, const CharText& text, const TrainingSettings& settings,
               bool is_corrected, GradientExchange& exchange);

  // Collective. step counts from 0.
  StepFigures step(int step);

  // Collective: the loss on the same held-out sequences for any number of ranks, each of which
  // takes its part.
  double held_out_loss();

  // Collective: whether all ranks hold the same weights, bit for bit.
  bool is_equal();

 private:
  double mean_of_ranks(double value);

  sparcl::Comm& comm_;
  const CharText& text_;
  TrainingSettings settings_;
  bool is_corrected_;
  GradientExchange& exchange_;
  Transformer model_, evaluator_;
  std::vector<float> weights_, gradient_, mean_;
  Momentum momentum_;
  sparcl::Mask one_;  // of arrays of one element
  SeededRandom random_;
  Batch held_out_;
};

}  // namespace training
