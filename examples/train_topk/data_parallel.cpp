#include "data_parallel.hpp"

#include <algorithm>
#include <chrono>
#include <language_model/adamw.hpp>
#include <language_model/initial_weights.hpp>
#include <language_model/rank_sharing.hpp>

namespace training {
namespace {

constexpr int kWarmupSteps = 40;
constexpr float kNormLimit = 1;
constexpr float kLastRate = 0;  // of the peak: as the rate goes to 0, so do the residuals
constexpr int kHeldOutSequences = 256;
enum Stream : std::uint64_t { kBatches = 1000, kHeldOut = 100'000 };

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int held_out_part(const sparcl::Comm& comm) { return std::max(1, kHeldOutSequences / comm.size()); }

}  // namespace

DataParallel::DataParallel(sparcl::Comm& comm, const CharText& text,
                           const TrainingSettings& settings, bool is_corrected,
                           GradientExchange& exchange)
    : comm_(comm),
      text_(text),
      settings_(settings),
      is_corrected_(is_corrected),
      exchange_(exchange),
      model_(settings.shape, settings.batch),
      evaluator_(settings.shape, held_out_part(comm)),
      weights_(initial_weights(model_.layout(), settings.shape.layers, settings.seed)),
      gradient_(weights_.size()),
      mean_(weights_.size()),
      momentum_(weights_.size()),
      one_(sparcl::Mask::random(1, 1, 0)),
      random_(settings.seed, kBatches + static_cast<std::uint64_t>(comm.rank())) {
  SeededRandom random(settings.seed, kHeldOut);
  (void)draw_batch(text.held_out(), evaluator_.batch() * comm.rank(), settings.shape.context,
                   random);  // those of the ranks before
  held_out_ = draw_batch(text.held_out(), evaluator_.batch(), settings.shape.context, random);
}

StepFigures DataParallel::step(int step) {
  StepFigures figures;
  const double begin = now();
  std::fill(gradient_.begin(), gradient_.end(), 0.0F);
  const Batch batch =
      draw_batch(text_.training(), model_.batch(), settings_.shape.context, random_);
  const double loss = loss_of(model_, weights_, batch, gradient_);
  figures.loss = mean_of_ranks(
      loss);  // the ranks meet here, so that the exchange's time has no waiting for the slowest

  clip_norm(gradient_, kNormLimit);
  // Scaled before the exchange: late values count with the rate of their own step (EF-SGD,
  // Karimireddy et al., ICML 2019).
  const float rate = scheduled_rate(settings_.rate, step, kWarmupSteps, settings_.steps, kLastRate);
  for (float& value : gradient_) value *= rate;
  if (is_corrected_) momentum_.apply(gradient_);

  const double exchange_begin = now();
  figures.report = exchange_.mean(gradient_, step, mean_);
  figures.seconds = now() - exchange_begin;
  if (is_corrected_) {
    momentum_.slow_down(mean_);
  } else {
    // For masks with feedback, which send many steps' gradients at once; the mean of the other
    // methods is no longer than the limit.
    clip_norm(mean_, kNormLimit * rate);
    momentum_.apply(mean_);
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] -= mean_[i];
  figures.step_seconds = now() - begin;
  return figures;
}

double DataParallel::held_out_loss() {
  return mean_of_ranks(loss_of(evaluator_, weights_, held_out_));
}

bool DataParallel::is_equal() {
  sparcl::State state;
  state.add("weights", std::span(weights_), {weights_.size()});
  const std::vector<std::uint8_t> hashes = gather_from_all<std::uint8_t>(comm_, state.hash());
  return std::equal(hashes.begin() + 16, hashes.end(), hashes.begin());
}

double DataParallel::mean_of_ranks(double value) {
  double mean = 0;
  comm_.all_reduce_masked<double>({&value, 1}, {&mean, 1}, one_, sparclAvg);
  return mean;
}

}  // namespace training
