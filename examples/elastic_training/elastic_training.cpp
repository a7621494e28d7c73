// DiLoCo with workers that may be killed at any time (Douillard et al., arXiv 2311.08105): each
// trains some steps by itself and contributes the difference; the aggregator steps Nesterov's
// momentum.
//   elastic_training root --listen 127.0.0.1:4711 --folder rounds --rounds 200
//   elastic_training worker --connect 127.0.0.1:4711 --seed 1      (any number, each with its seed)
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <random>
#include <sparcl/sparcl.hpp>
#include <string>
#include <thread>

#include "small_network.hpp"

namespace {

constexpr std::uint64_t kTeacher = 1, kStart = 2;  // seeds

struct Options {
  std::string address = "127.0.0.1:4711", folder;
  std::uint64_t rounds = 100, seed = 1;
  int steps = 20;      // of a worker between two contributions
  double pause_s = 0;  // after each of them, as if steps took longer
  double deadline_s = 30;
};

// The state hash of what is held: equal on all who hold a version.
std::string hash_text(const sparcl::State& state) {
  std::uint8_t hash[16];
  sparcl::check(sparclStateHash(state.get(), hash));
  char text[33];
  for (int i = 0; i < 16; ++i) std::snprintf(text + 2 * i, 3, "%02x", hash[i]);
  return text;
}

void run_root(const Options& options) {
  std::vector<float> weights = SmallNetwork::random_weights(kStart);
  std::vector<float> taught = SmallNetwork::random_weights(kTeacher);
  const SmallNetwork own(weights), teacher(taught);
  sparcl::State state;
  state.add("weights", std::span(weights), {SmallNetwork::kWeights});
  sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
  how.outer = sparclOuterNesterov;
  how.learning_rate = 0.7;
  how.momentum = 0.6;
  const sparcl::Aggregator aggregator(SmallNetwork::kWeights, how);
  sparclServeOptions_t serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
  serve.listen = options.address.c_str();
  serve.folder = options.folder.empty() ? nullptr : options.folder.c_str();
  serve.deadline_s = options.deadline_s;
  sparcl::AggregatorService service(aggregator, state, serve);
  std::printf("serving workers at %s\n", service.address().c_str());
  std::fflush(stdout);
  std::uint64_t version = 0;  // more than 1 if the folder has rounds already
  sparcl::check(sparclStateVersion(state.get(), &version));
  while (version <= options.rounds) {
    const auto round = service.next(1);
    if (!round) continue;
    version = round->version;
    std::printf("version %d of %d contributions, loss %.6f, hash %s\n", int(version),
                int(round->listed), own.validate(teacher), hash_text(state).c_str());
    std::fflush(stdout);
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));  // workers take the last version
}

void run_worker(const Options& options) {
  std::vector<float> weights(SmallNetwork::kWeights);
  std::vector<float> taught = SmallNetwork::random_weights(kTeacher);
  SmallNetwork own(weights);
  const SmallNetwork teacher(taught);
  sparcl::State state;
  state.add("weights", std::span(weights), {SmallNetwork::kWeights});
  sparcl::Worker worker(state, options.address);
  constexpr int kSamples = 16;
  std::uint64_t version = 0;
  while (version <= options.rounds) {
    const auto newer = worker.next(120);
    if (!newer) throw std::runtime_error(worker.reason());
    version = *newer;
    std::printf("version %d, hash %s\n", int(version), hash_text(state).c_str());
    std::fflush(stdout);
    std::mt19937_64 random(options.seed * 1'000'003 + version);  // the same data after a restart
    for (int step = 0; step < options.steps; ++step)
      (void)own.step(teacher, random, kSamples, 0.02);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.pause_s));
    worker.contribute(options.steps * kSamples);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  CLI::App app("DiLoCo with workers that come and go");
  app.require_subcommand(1);
  CLI::App* root = app.add_subcommand("root", "the aggregator");
  root->add_option("--listen", options.address, "HOST:PORT for workers");
  root->add_option("--folder", options.folder, "keeps the rounds");
  root->add_option("--deadline", options.deadline_s, "seconds of a round");
  CLI::App* worker = app.add_subcommand("worker", "one worker");
  worker->add_option("--connect", options.address, "HOST:PORT of the aggregator");
  worker->add_option("--seed", options.seed, "of its data");
  worker->add_option("--steps", options.steps, "between two contributions");
  worker->add_option("--pause", options.pause_s, "seconds after these steps");
  for (CLI::App* each : {root, worker})
    each->add_option("--rounds", options.rounds, "of the training")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  root->parsed() ? run_root(options) : run_worker(options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "elastic_training: %s\n", error.what());
  return 1;
}
