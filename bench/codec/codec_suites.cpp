#include "bench/codec/codec_suites.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bench/codec/memory_speed.hpp"
#include "bench/codec/peer_codecs.hpp"

namespace sparcl::bench {
namespace {

constexpr std::uint64_t kSmall = std::uint64_t{1} << 24;
constexpr int kTraceSteps = 8;

// One input under one or several coders.
class Bench {
 public:
  Bench(const Options& options, Report& report) : options_(options), report_(report) {}

  void own(const Input& input, const OwnMode& mode, const kernels::KernelSet& kernels, int rounds) {
    room_for(input);
    Row row = size_row(input, mode.name, 0);
    const OwnTimes times = measure_own(input, mode, kernels, rounds, held_.data());
    row = size_row(input, mode.name, times.encoded_bytes);
    add_times(row, input, times, kernels.name,
              touched_bytes(input.base.data(), input.target.data(), input.bytes()));
    report_.add(row);
  }

  // Every mode of our own.
  void own(const Input& input) {
    for (const OwnMode& mode : own_modes())
      own(input, mode, *options_.kernels.front(), options_.rounds);
  }

  void size_only(const Input& input) {
    for (const OwnMode& mode : own_modes()) {
      report_.add(
          size_row(input, mode.name, encode_own(input, mode, *options_.kernels.front()).size()));
    }
  }

  void peer(const Input& input, const PeerCodec& peer) {
    if (input.bytes() > peer.max_bytes) {
      report_.note(fmt::format("{}: skipped above {} MiB", peer.name, peer.max_bytes >> 20));
      return;
    }
    room_for(input);
    double (*const clock)() = peer.clock != nullptr ? peer.clock : thread_seconds;
    Samples encode, apply;
    std::size_t bytes = 0;
    for (int round = 0; round < std::min(options_.rounds, peer.max_rounds); ++round) {
      Stopwatch watch(clock);
      const Bytes encoded = peer.encode(input, *options_.kernels.front());
      encode.push_back(watch.lap());
      bytes = encoded.size();
      std::memcpy(held_.data(), input.base.data(), input.bytes());
      watch.lap();
      peer.apply(input, encoded, held_.data());
      apply.push_back(watch.lap());
      if (round > 0 || std::memcmp(held_.data(), input.target.data(), input.bytes()) == 0) continue;
      fmt::print(stderr, "{}, {}: what was applied is not the target\n", input.name, peer.name);
      std::exit(1);
    }
    Row row = size_row(input, peer.name, bytes);
    add_speeds(row, input, median(encode), median(apply));
    report_.add(row);
  }

  void peers(const Input& input, const std::vector<PeerCodec>& all) {
    for (const PeerCodec& one : all) peer(input, one);
  }

 private:
  void room_for(const Input& input) {
    if (held_.size() < input.bytes()) held_ = HugeBuffer(input.bytes());
  }

  const Options& options_;
  Report& report_;
  HugeBuffer held_;
};

std::vector<double> densities(const Options& options, std::vector<double> own) {
  return options.densities.empty() ? own : options.densities;
}

std::uint64_t small(const Options& options) { return std::min(options.elements, kSmall); }

template <class Work>
void each_trace(const Options& options, Report& report, Work work) {
  if (options.trace.empty()) return report.note("trace: skipped, no folder given (--trace)");
  for (int step = 1; step <= kTraceSteps; ++step) {
    const Input input = trace_input(options.trace, step);
    if (input.elements == 0)
      return report.note(
          fmt::format("trace: skipped, step {} cannot be read in {}", step, options.trace));
    work(input);
  }
}

void speed(const Options& options, Report& report) {
  Bench bench(options, report);
  for (const double density : densities(options, {0.003, 0.01, 0.02, 0.05, 0.5})) {
    const Input input = iid_input(options.elements, density);
    for (const auto* kernels : options.kernels)
      bench.own(input, own_modes()[0], *kernels, options.rounds);
  }
}

void masters(const Options& options, Report& report) {
  Bench bench(options, report);
  for (const Steps steps : {Steps::kNormal, Steps::kOneSize}) {
    for (const double density : densities(options, {0.003, 0.01, 0.02, 0.05})) {
      const Input input = masters_input(DataType::kBfloat16, options.elements, density, steps);
      for (const auto* kernels : options.kernels)
        bench.own(input, own_modes()[1], *kernels, options.rounds);
    }
  }
}

void density(const Options& options, Report& report) {
  Bench bench(options, report);
  const std::vector<double> all =
      densities(options, {1e-6, 1e-5, 1e-4, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1});
  for (const bool from_masters : {false, true}) {
    for (const double density : all) {
      if (from_masters && (density < 1e-4 || density > 0.6)) continue;
      const Input input = from_masters ? masters_input(DataType::kBfloat16, small(options), density)
                                       : iid_input(small(options), density);
      bench.own(input);
      bench.peers(input, sparse_peers());
      bench.peers(input, {whole_peers().front()});
    }
  }
  for (const double density : {0.0, 1.0}) {
    const Input input = random_input(small(options), density);
    bench.own(input);
  }
}

// Rows of embeddings and experts: long runs. Attention: shorter runs. Block masks: whole blocks.
void clusters(const Options& options, Report& report) {
  constexpr Clusters kClusters[] = {{0.01, 0.5, 16},    {0.01, 0.2, 128}, {0.01, 0.2, 1024},
                                    {0.01, 0.5, 4096},  {0.05, 0.3, 512}, {0.002, 0.1, 8192},
                                    {0.01, 0.999, 2048}};
  Bench bench(options, report);
  for (const Clusters& row : kClusters)
    bench.own(clustered_input(small(options), row), own_modes()[0], *options.kernels.front(),
              options.rounds);
}

void blocks(const Options& options, Report& report) {
  Bench bench(options, report);
  for (const double inside : {1.0, 0.25}) {
    for (const std::uint64_t block : {8u, 32u, 64u, 128u, 512u, 4096u, 65536u}) {
      bench.own(block_input(small(options), block, 0.01, inside), own_modes()[0],
                *options.kernels.front(), options.rounds);
    }
  }
}

void trace(const Options& options, Report& report) {
  Bench bench(options, report);
  each_trace(options, report, [&](const Input& input) {
    bench.own(input);
    bench.peers(input, sparse_peers());
  });
}

void types(const Options& options, Report& report) {
  Bench bench(options, report);
  for (const std::string& name : typed_names()) {
    const Input input = typed_input(name, std::min<std::uint64_t>(options.elements, kSmall / 2));
    bench.own(input);
    if (!input.fresh) bench.peers(input, {sparse_peers()[1], sparse_peers()[3]});
    bench.peers(input, {whole_peers()[1], whole_peers()[2]});
  }
}

void peers(const Options& options, Report& report) {
  std::string why_none;
  const std::vector<PeerCodec> patches = patch_peers(why_none);
  if (!why_none.empty()) report.note(why_none);
  Bench bench(options, report);
  for (const double density : densities(options, {0.01})) {
    for (const bool from_masters : {false, true}) {
      const Input input = from_masters ? masters_input(DataType::kBfloat16, small(options), density)
                                       : iid_input(small(options), density);
      bench.own(input);
      bench.peers(input, sparse_peers());
      bench.peers(input, whole_peers());
      bench.peers(input, patches);
    }
  }
}

// Does zstd around an update make it smaller?
void outer(const Options& options, Report& report) {
  const auto around = [&](const Input& input) {
    for (const OwnMode& mode : own_modes()) {
      const Bytes inner = encode_own(input, mode, *options.kernels.front());
      Row row = size_row(input, mode.name, inner.size());
      for (const int level : {1, 3, 19}) {
        row[fmt::format("zstd_{}", level)] =
            static_cast<double>(zstd_of(inner, level).size()) / static_cast<double>(inner.size());
      }
      report.add(row);
    }
  };
  const std::uint64_t elements =
      std::min<std::uint64_t>(options.elements, kSmall / 4);  // zstd-19 takes its time
  for (const double density : {1e-4, 0.003, 0.01, 0.05, 0.5}) around(iid_input(elements, density));
  around(clustered_input(elements, {0.01, 0.2, 1024}));
  around(block_input(elements, 128, 0.01, 1));
  for (const double density : {0.003, 0.01, 0.05})
    around(masters_input(DataType::kBfloat16, elements, density));
  for (const std::string& name : typed_names()) around(typed_input(name, elements / 2));
  each_trace(options, report, around);
}

constexpr Suite kSuites[] = {
    {"speed", "independent changes as a broadcast sends them, on each instruction set", speed},
    {"masters", "bf16 weights of fp32 masters, with exponent classes, on each instruction set",
     masters},
    {"density", "sizes and speeds over the share that changes", density},
    {"clusters", "changes in runs of random lengths", clusters},
    {"blocks", "masks of whole blocks", blocks},
    {"trace", "a real fine-tuning", trace},
    {"types", "other element types, and what optimizers hold", types},
    {"peers", "what others send", peers},
    {"outer", "zstd around the updates", outer},
};

}  // namespace

std::span<const Suite> suites() { return kSuites; }

}  // namespace sparcl::bench
