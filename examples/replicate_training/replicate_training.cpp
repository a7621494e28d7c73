// replicate_training: rank 0 trains a small language model; after every step all other ranks hold its exact bf16 weights, having
// received only what changed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "rank_launcher.hpp"
#include "training_job.hpp"

namespace {

using training::JobOptions;

struct ModelSize {
  const char* name;
  int width, layers;
};
constexpr ModelSize kModelSizes[] = {{"tiny", 32, 2}, {"small", 128, 5}, {"medium", 256, 6}};

void set_model_size(JobOptions& options, const std::string& text) {
  for (const ModelSize& size : kModelSizes) {
    if (text == size.name) {
      options.width = size.width;
      options.layers = size.layers;
      return;
    }
  }
  char more = '\0';
  if (std::sscanf(text.c_str(), "%dx%d%c", &options.width, &options.layers, &more) != 2) {
    throw CLI::ValidationError("--model-size", text + " is none of tiny, small, medium, WIDTHxLAYERS");
  }
  const bool is_usable =
      options.width >= 32 && options.width <= 4096 && options.width % 32 == 0 && options.layers >= 1 && options.layers <= 100;
  if (!is_usable) throw CLI::ValidationError("--model-size", "the width must be a multiple of 32 up to 4096, with 1 to 100 layers");
}

void add_options(CLI::App& app, JobOptions& options) {
  app.add_option("--ranks", options.ranks, "ranks as threads of this process; under mpirun or srun these decide")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps of pre-training")->check(CLI::Range(0, 1'000'000))->capture_default_str();
  app.add_option("--finetune-steps", options.finetune_steps, "policy-gradient steps with a tiny learning rate")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--model-size", [&options](const std::string& text) { set_model_size(options, text); },
      "tiny, small, medium (30 thousand, 1 million, 5 million parameters) or WIDTHxLAYERS [small]");
  app.add_option("--batch", options.batch, "sequences of 64 characters a pre-training step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--learning-rate", options.rate, "peak of pre-training")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--finetune-learning-rate", options.finetune_rate)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--text", options.text, "files to learn from [the licences in /usr/share/common-licenses]")
      ->check(CLI::ExistingFile);
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--checkpoint-dir", options.checkpoint_dir,
                 "write weights_NN.safetensors (bf16): after pre-training and each fine-tuning step");
  app.add_option("--grads-dir", options.gradients_dir,
                 "write rank_R.safetensors (fp32): gradients of --grads-ranks batches at half of pre-training");
  app.add_option("--grads-ranks", options.gradients_ranks)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--json", options.json, "write steps, totals and hashes for machines");
}

}  // namespace

int main(int argc, char** argv) {
  JobOptions options;
  CLI::App app(
      "Rank 0 trains a small language model; after every step all ranks hold its exact bf16 weights, having received only what "
      "changed.");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto run_job = [&](sparcl::Comm& comm) { training::TrainingJob(comm, options).run(); };
  try {
    if (training::is_started_by_mpi()) {
      training::run_under_mpi(run_job);
    } else {
      training::run_as_threads(options.ranks, run_job);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replicate_training: %s\n", error.what());
    return 1;
  }
  return 0;
}
