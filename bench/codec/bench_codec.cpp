// Size and speed of the codec against the entropy limit, the speed of reading memory in the same
// rounds, and the formats of other projects.
//   bench_codec --suite speed --trace ../shared/data/trace
// Speeds are GB/s of the dense array; medians, and medians of ratios within a round.

#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "bench/codec/codec_suites.hpp"

namespace sparcl::bench {
namespace {

std::string machine() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::vector<const kernels::KernelSet*> find_kernels(const std::string& name) {
  std::vector<const kernels::KernelSet*> found;
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) {
    if (name == "all" || std::string(set.name).find(name) != std::string::npos)
      found.push_back(&set);
  }
  if (name == "ref") found = {&kernels::reference_kernels()};
  if (name == "best") found = {&kernels::cpu_kernels()};
  if (name == "two") {
    found = {&kernels::cpu_kernels()};
    for (const auto* set : find_kernels("AVX2")) {
      if (set->name != found[0]->name) found.push_back(set);
    }
  }
  return found;
}

}  // namespace
}  // namespace sparcl::bench

int main(int argc, char** argv) {
  using namespace sparcl::bench;
  Options options;
  std::string wanted = "speed";
  std::string kernels = "two";
  std::string commit = "unknown";
  bool json = false;
  std::string names;
  for (const Suite& suite : suites()) names += fmt::format("\n  {}: {}", suite.name, suite.what);
  CLI::App app("Size and speed of the codec on one core. Suites:" + names);
  app.add_option("--suite", wanted, "one of the above, or all")->capture_default_str();
  app.add_option("--elements", options.elements, "elements of made-up inputs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--density", options.densities, "these densities instead of the suite's")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--trace", options.trace, "folder with weights/step_NN.safetensors");
  app.add_option("--kernels", kernels, "two (the best and AVX2), best, all, ref, or part of a name")
      ->capture_default_str();
  app.add_option("--commit", commit, "named in the output");
  app.add_flag("--json", json, "one JSON line a row");
  CLI11_PARSE(app, argc, argv);

  options.kernels = find_kernels(kernels);
  if (options.kernels.empty()) {
    fmt::print(stderr, "no kernels named {} on this machine\n", kernels);
    return 2;
  }
  // Large buffers are taken from the system once and not for each round, because page faults are no
  // cost of a codec.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Report report(json);
  report.begin({{"about", "bench_codec"},
                {"commit", commit},
                {"date", today()},
                {"machine", machine()},
                {"compiler", __VERSION__}});
  bool ran = false;
  for (const Suite& suite : suites()) {
    if (wanted != "all" && wanted != suite.name) continue;
    report.title(suite.name, suite.what);
    suite.run(options, report);
    ran = true;
  }
  if (!ran) fmt::print(stderr, "no suite {}: see --help\n", wanted);
  return ran ? 0 : 2;
}
