// train_topk: data-parallel training of a small language model. The ranks exchange all of their
// gradients, only the largest elements, or random ones. It reports how the loss falls, how many
// bytes are sent, and how long it takes.
#include <CLI/CLI.hpp>
#include <language_model/rank_program.hpp>
#include <map>
#include <stdexcept>
#include <string>

#include "comparison.hpp"

namespace {

using training::ComparisonOptions;

// The message of an invalid argument, as CLI11 tells it.
template <class Set>
CLI::Option* add_text_option(CLI::App& app, const std::string& name, Set set,
                             const std::string& help) {
  return app.add_option_function<std::vector<std::string>>(
      name,
      [name, set](const std::vector<std::string>& texts) {
        try {
          for (const std::string& text : texts) set(text);
        } catch (const std::invalid_argument& error) {
          throw CLI::ValidationError(name, error.what());
        }
      },
      help);
}

void add_options(CLI::App& app, ComparisonOptions& options) {
  training::TrainingSettings& settings = options.training;
  app.add_option("--ranks", options.ranks,
                 "ranks as threads of this process; under mpirun or srun these decide")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_text_option(
      app, "--variants",
      [&options](const std::string& text) {
        options.variants.push_back(training::parse_variant(text));
      },
      "of dense, mpi (MPI_Allreduce), topk:DENSITY, mask:DENSITY; with :forget behind it unsent "
      "values "
      "are lost\n"
      "[mpi dense, topk of 0.01 and 0.001 and mask of 0.01, each with and without :forget]");
  app.add_option("--mode", options.mode, "of top-k: union, selected, global [union]")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, sparclTopKMode_t>{{"union", sparclTopKUnion},
                                                  {"selected", sparclTopKSelected},
                                                  {"global", sparclTopKGlobal}}));
  app.add_option("--density-warmup", options.density_warmup,
                 "steps in which the density of topk falls to its value")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--steps", settings.steps)->check(CLI::Range(1, 1'000'000))->capture_default_str();
  add_text_option(
      app, "--model-size",
      [&options](const std::string& text) { options.size = training::parse_model_size(text); },
      "tiny, small, medium (30 thousand, 1 million, 5 million parameters) or WIDTHxLAYERS [tiny]")
      ->expected(1);
  app.add_option("--batch", settings.batch, "sequences of 64 characters a rank and step")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--learning-rate", settings.rate, "peak")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--text", options.text,
                 "files to learn from [the licences in /usr/share/common-licenses]")
      ->check(CLI::ExistingFile);
  app.add_option("--seed", settings.seed)->capture_default_str();
  app.add_option("--json", options.json, "write steps and the comparison for machines");
}

}  // namespace

int main(int argc, char** argv) {
  ComparisonOptions options;
  CLI::App app(
      "Data-parallel training of a small language model: all gradients are exchanged, only the "
      "largest, or random ones.");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.variants.empty()) options.variants = training::default_variants();
  return training::run_program("train_topk", options.ranks, [&](sparcl::Comm& comm) {
    training::Comparison(comm, options).run();
  });
}
