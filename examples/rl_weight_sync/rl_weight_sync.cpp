// rl_weight_sync: a trainer fine-tunes a small language model by policy gradient. Inference workers
// join and leave. They hold its newest bf16 weights, sample with them, and send their samples.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "rollout_worker.hpp"
#include "weight_sync_job.hpp"

namespace {

using training::SyncOptions;
using training::WorkerOptions;

std::string refuse_size(const std::string& text) {
  try {
    (void)training::parse_model_size(text);
    return {};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

void add_options(CLI::App& app, SyncOptions& options) {
  app.add_option("--workers", options.workers, "processes that sample")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "of policy gradient")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--pretrain-steps", options.pretrain_steps,
                 "by cross entropy, before anything is published")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--model-size", options.size_name, "tiny, small, medium or WIDTHxLAYERS")
      ->check(CLI::Validator(refuse_size, ""))
      ->capture_default_str();
  app.add_option("--learning-rate", options.rate, "of policy gradient")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--letters", options.letters, "that are rewarded")->capture_default_str();
  app.add_option("--text", options.text,
                 "files to learn from [the licences in /usr/share/common-licenses]")
      ->check(CLI::ExistingFile);
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--json", options.json, "write steps and totals for machines");
}

// The subcommand by which the trainer starts workers; not for users.
CLI::App* add_worker(CLI::App& app, WorkerOptions& options) {
  CLI::App* worker = app.add_subcommand("worker")->group("");
  worker->add_option("--address", options.address)->required();
  worker->add_option("--channel", options.channel)->required();
  worker->add_option("--parent", options.parent)->required();
  worker->add_option("--stream", options.stream)->required();
  worker->add_option("--seed", options.seed)->required();
  worker->add_option("--model-size", options.size_name)->required();
  worker->add_option("--text", options.text);
  return worker;
}

}  // namespace

int main(int argc, char** argv) {
  SyncOptions options;
  WorkerOptions worker_options;
  CLI::App app(
      "A trainer publishes its weights after each step of policy gradient; workers that come and "
      "go sample with them.");
  add_options(app, options);
  const CLI::App* worker = add_worker(app, worker_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (worker->parsed()) {
      training::run_rollout_worker(worker_options);
    } else {
      training::run_weight_sync(options);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rl_weight_sync%s: %s\n", worker->parsed() ? " worker" : "", error.what());
    return 1;
  }
  return 0;
}
