#include "training_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <language_model/batch_loss.hpp>
#include <language_model/bf16_rounding.hpp>
#include <language_model/rank_sharing.hpp>
#include <language_model/text_sampler.hpp>
#include <numeric>
#include <stdexcept>

#include "checkpoint_file.hpp"
#include "policy_gradient.hpp"

namespace training {
namespace {

constexpr int kHeldOutSequences = 4;
constexpr int kSampleLength = 200;
constexpr std::uint64_t kHeldOutStream = 100'000;
constexpr std::uint64_t kSampleStream = 200'000;

std::uint64_t stream_of(std::uint64_t first, const sparcl::Comm& comm) {
  return first + static_cast<std::uint64_t>(comm.rank());
}

// Rows of the table: the first step of a phase, and about a dozen of pre-training, twenty of
// fine-tuning.
bool is_row(Phase phase, int step_of_phase, int steps) {
  const int rows = phase == Phase::kPretrain ? 12 : 20;
  return step_of_phase <= 1 || step_of_phase % ((steps + rows - 1) / rows) == 0;
}

}  // namespace

TrainingJob::TrainingJob(sparcl::Comm& comm, const JobOptions& options)
    : comm_(comm),
      options_(options),
      text_(share_text(comm, comm.rank() == 0 ? read_text(options.text) : "")),
      shape_(shape_of(options.size, text_.vocabulary())),
      layout_(shape_),
      weights_(comm, layout_),
      compute_(layout_.count()),
      evaluator_(shape_, kHeldOutSequences),
      sampler_(shape_, kGroup),
      random_(options.seed, stream_of(kSampleStream, comm)) {
  SeededRandom random(options.seed, stream_of(kHeldOutStream, comm));
  held_out_ = draw_batch(text_.held_out(), kHeldOutSequences, shape_.context, random);
  if (comm.rank() != 0) return;
  trainer_.emplace(text_, TrainerSettings{shape_, options.seed, options.steps, options.batch,
                                          options.rate, options.finetune_rate});
  report_.emplace(fmt::format("replicate_training: {} ranks, {} parameters in bf16 ({} layers of "
                              "width {}), {} characters of text, seed {}",
                              comm.size(), layout_.count(), shape_.layers, shape_.width,
                              text_.training().size() + text_.held_out().size(), options.seed),
                  options.steps + options.finetune_steps);
}

void TrainingJob::run() {
  publish(0, Phase::kStart, {});  // the untrained weights: the only version that is sent as a whole
  for (int step = 1; step <= options_.steps; ++step)
    publish(step, Phase::kPretrain, pretrain_step(step));
  write_weights(0);
  for (int step = 1; step <= options_.finetune_steps; ++step) {
    publish(options_.steps + step, Phase::kFinetune, finetune_step());
    write_weights(step);
  }
  finish();
}

// The trainer computes with the bf16 weights that all ranks hold, and moves its fp32 master
// weights.
TrainingJob::Outcome TrainingJob::pretrain_step(int step) {
  if (!is_trainer()) return {};
  if (step == options_.steps / 2) write_gradients(step);
  return {trainer_->pretrain_step(compute_, step - 1), 0};
}

// As in RL, the replicas sample with the weights that they just received, and the trainer learns
// from all samples.
TrainingJob::Outcome TrainingJob::finetune_step() {
  const std::vector<Token> mine = sample_group(sampler_, compute_, text_.training(), random_);
  const std::vector<Token> groups = gather_from_all<Token>(comm_, mine);
  if (!is_trainer()) return {};
  const Trainer::PolicyResult result = trainer_->policy_step(compute_, groups);
  return {result.loss, result.reward};
}

void TrainingJob::publish(int step, Phase phase, const Outcome& outcome) {
  if (is_trainer()) round_to_bf16(trainer_->master(), weights_.values());
  const sparcl::Report broadcast = weights_.update(++version_);
  bytes_received_ += broadcast.bytes_received;

  expand_to_float(weights_.values(), compute_);
  held_out_loss_ = loss_of(evaluator_, compute_, held_out_);
  const std::vector<double> losses = gather_from_all<double>(comm_, {&held_out_loss_, 1});
  if (is_trainer()) report_step(step, phase, outcome, broadcast, mean_replica_loss(losses));
}

double TrainingJob::mean_replica_loss(const std::vector<double>& losses) const {
  const std::size_t first = losses.size() > 1 ? 1 : 0;  // alone, the trainer is its own replica
  return std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(first), losses.end(), 0.0) /
         static_cast<double>(losses.size() - first);
}

void TrainingJob::report_step(int step, Phase phase, const Outcome& outcome,
                              const sparcl::Report& broadcast, double held_out_loss) {
  const StepRecord record{step,
                          phase,
                          outcome.loss,
                          outcome.reward,
                          held_out_loss,
                          broadcast.nnz_in,
                          layout_.count(),
                          broadcast.bytes_bound,
                          broadcast.bytes_dense,
                          broadcast.seconds};
  const int before = phase == Phase::kFinetune ? options_.steps : 0;
  report_->add(record,
               is_row(phase, step - before,
                      phase == Phase::kFinetune ? options_.finetune_steps : options_.steps));
}

void TrainingJob::finish() {
  const std::vector<double> losses = gather_from_all<double>(comm_, {&held_out_loss_, 1});
  const std::vector<std::uint64_t> received =
      gather_from_all<std::uint64_t>(comm_, {&bytes_received_, 1});
  const std::vector<std::uint8_t> hashes = gather_from_all<std::uint8_t>(comm_, weights_.hash());
  const std::string samples = write_sample();
  std::vector<RankSummary> summaries(losses.size());
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    summaries[rank] = {{}, losses[rank], received[rank]};
    std::copy_n(hashes.begin() + static_cast<std::ptrdiff_t>(rank * 16), 16,
                summaries[rank].hash.begin());
  }
  if (is_trainer()) {
    const int sample_rank = comm_.size() - 1;
    report_->finish(summaries, sample_rank, samples.substr(samples.size() - kSampleLength));
    if (!options_.json.empty()) report_->write_json(options_.json);
  }
  if (!all_equal(summaries)) throw std::runtime_error("the replicas differ from the trainer");
}

// The text of all ranks, one after the other, on one line.
std::string TrainingJob::write_sample() {
  Transformer writer(shape_, 1);
  const std::span<const Token> prompt =
      text_.held_out().first(static_cast<std::size_t>(shape_.context) / 2);
  const std::vector<Token> mine = write_on(writer, compute_, prompt, kSampleLength, 0.7F, random_);
  std::string all;
  for (const Token token : gather_from_all<Token>(comm_, mine)) {
    const char character = text_.character(token);
    const bool is_printable = character >= ' ' && character <= '~';
    all += is_printable ? character : character == '\n' ? ' ' : '?';
  }
  return all;
}

void TrainingJob::write_weights(int finetune_step) {
  if (!is_trainer() || options_.checkpoint_dir.empty()) return;
  write_checkpoint(
      options_.checkpoint_dir / fmt::format("weights_{:02}.safetensors", finetune_step), layout_,
      weights_.values(),
      {{"step", std::to_string(finetune_step)},
       {"rate", fmt::format("{:f}", options_.finetune_rate)}});
}

void TrainingJob::write_gradients(int step) {
  if (options_.gradients_dir.empty()) return;
  for (int rank = 0; rank < options_.gradients_ranks; ++rank) {
    const std::vector<float> gradient = trainer_->gradient_of_rank(compute_, rank);
    write_checkpoint(options_.gradients_dir / fmt::format("rank_{}.safetensors", rank), layout_,
                     gradient, {{"step", std::to_string(step)}, {"rank", std::to_string(rank)}});
  }
}

}  // namespace training
