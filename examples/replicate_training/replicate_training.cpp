// replicate_training: rank 0 trains a small language model. After every step all other ranks hold
// its exact bf16 weights, and have received only the changes.
#include <CLI/CLI.hpp>
#include <language_model/rank_program.hpp>
#include <stdexcept>
#include <string>

#include "training_job.hpp"

namespace {

using training::JobOptions;

void set_model_size(JobOptions& options, const std::string& text) {
  try {
    options.size = training::parse_model_size(text);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError("--model-size", error.what());
  }
}

void add_options(CLI::App& app, JobOptions& options) {
  app.add_option("--ranks", options.ranks,
                 "ranks as threads of this process; under mpirun or srun these decide")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps of pre-training")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--finetune-steps", options.finetune_steps,
                 "policy-gradient steps with a tiny learning rate")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--model-size", [&options](const std::string& text) { set_model_size(options, text); },
      "tiny, small, medium (30 thousand, 1 million, 5 million parameters) or WIDTHxLAYERS [small]");
  app.add_option("--batch", options.batch, "sequences of 64 characters a pre-training step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--learning-rate", options.rate, "peak of pre-training")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--finetune-learning-rate", options.finetune_rate)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--text", options.text,
                 "files to learn from [the licences in /usr/share/common-licenses]")
      ->check(CLI::ExistingFile);
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option(
      "--checkpoint-dir", options.checkpoint_dir,
      "write weights_NN.safetensors (bf16): after pre-training and each fine-tuning step");
  app.add_option("--grads-dir", options.gradients_dir,
                 "write rank_R.safetensors (fp32): gradients of --grads-ranks batches at half of "
                 "pre-training");
  app.add_option("--grads-ranks", options.gradients_ranks)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--json", options.json, "write steps, totals and hashes for machines");
}

}  // namespace

int main(int argc, char** argv) {
  JobOptions options;
  CLI::App app(
      "Rank 0 trains a small language model; after every step all ranks hold its exact bf16 "
      "weights, having received only what changed.");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return training::run_program("replicate_training", options.ranks, [&](sparcl::Comm& comm) {
    training::TrainingJob(comm, options).run();
  });
}
