// Size and speed of the codec on one core, against the entropy limit and the speed of reading two arrays in the same run.
//   bench_codec --trace ../shared/data/trace
// Speeds are GB/s of the dense model (2 bytes an element), medians of processor time.

#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/codec/bench_data.hpp"
#include "src/codec/update.hpp"

namespace sparcl::bench {
namespace {

struct Options {
  std::uint64_t elements = std::uint64_t{1} << 26;
  int repeats = 9;
  bool json = false;
  std::string trace;
  double density = 0;  // 0: several
  const kernels::KernelSet* kernels = &kernels::cpu_kernels();
};

class StagingSink : public codec::ByteSink {
 public:
  std::byte* reserve(std::size_t bytes) override {
    const std::size_t left = Staging::kSegmentBytes - static_cast<std::size_t>(used_ % Staging::kSegmentBytes);
    direct_ = bytes <= left;
    if (!direct_) {
      spill_.resize(bytes);
      return spill_.data();
    }
    staging_.reserve(used_ + bytes);
    return staging_.slice(used_, bytes).data();
  }
  void commit(std::size_t used) override {
    if (!direct_) staging_.write(used_, {spill_.data(), used});
    used_ += used;
  }
  void rewind() { used_ = 0; }
  const Staging& staging() const { return staging_; }
  std::uint64_t used() const { return used_; }

 private:
  Staging staging_;
  std::vector<std::byte> spill_;
  std::uint64_t used_ = 0;
  bool direct_ = false;
};

// Time of this thread on its core: what runs beside it disturbs less than with a wall clock. Nothing here waits.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void require(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", status.message());
  std::exit(1);
}

double median(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

struct Timing {
  double read, diff, encode, encode_with_hash, check, apply;  // seconds
  std::uint64_t bytes = 0;
};

void encode(const codec::BlockMap& map, const std::byte* base, const std::byte* target, bool with_hash, const Options& options,
            StagingSink& sink) {
  sink.rewind();
  codec::EncodeOptions encode_options;
  encode_options.with_state_hash = with_hash;
  codec::UpdateEncoder encoder(map, {&base, 1}, {&target, 1}, encode_options, *options.kernels);
  while (!encoder.finished()) require(encoder.step(std::uint64_t{1} << 20, sink));
}

// Speed of the memory: all of both arrays read once, 8 sums a loop so that only loads matter.
__attribute__((target_clones("avx512f", "avx2", "default"))) std::uint64_t read_both(const std::byte* a, const std::byte* b,
                                                                                     std::size_t bytes) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i < bytes; i += 64) {
    std::uint64_t x[8];
    std::uint64_t y[8];
    std::memcpy(x, a + i, 64);
    std::memcpy(y, b + i, 64);
    for (int j = 0; j < 8; ++j) sums[j] += x[j] ^ y[j];
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

Timing measure(const std::byte* base, const std::byte* target, std::byte* held, std::uint64_t elements, const Options& options) {
  const codec::ArraySpec spec{DataType::kBfloat16, elements};
  const codec::BlockMap map({&spec, 1});
  std::vector<double> read, diff, plain, hashed, check, apply;
  StagingSink forward, back, scratch;
  encode(map, base, target, false, options, forward);
  encode(map, target, base, false, options, back);
  std::memcpy(held, base, elements * 2);
  std::vector<std::uint16_t> positions(65536 + kernels::kPositionSlack);
  volatile std::uint64_t keep = 0;
  for (int i = 0; i < options.repeats; ++i) {
    double start = now();
    keep = keep + read_both(base, target, elements * 2 / 64 * 64);
    read.push_back(now() - start);
    start = now();
    for (std::uint64_t first = 0; first < elements; first += 65536) {
      const std::uint64_t count = std::min<std::uint64_t>(65536, elements - first);
      keep = keep + options.kernels->of(DataType::kBfloat16).diff(base + first * 2, target + first * 2, count, 0, positions.data());
    }
    diff.push_back(now() - start);
    start = now();
    encode(map, base, target, false, options, scratch);
    plain.push_back(now() - start);
    start = now();
    encode(map, base, target, true, options, scratch);
    hashed.push_back(now() - start);
    for (const StagingSink* stream : {&forward, &back}) {
      codec::UpdateDecoder decoder(map, {&held, 1}, codec::Verify::kTouched, {}, *options.kernels);
      start = now();
      bool more = false;
      require(decoder.advance(stream->staging(), stream->used(), ~std::uint64_t{0}, more));
      require(decoder.finish(stream->used()));
      check.push_back(now() - start);
      start = now();
      require(decoder.apply(stream->staging()));
      apply.push_back(now() - start);
      if (stream == &forward && std::memcmp(held, target, elements * 2) != 0)
        require(Status(Code::kInternalError, "the held array is not the target"));
    }
  }
  return {median(read), median(diff), median(plain), median(hashed), median(check), median(apply), forward.used()};
}

void report(const std::string& name, const Limit& limit, const Timing& timing, std::uint64_t elements, const Options& options) {
  const double changed = static_cast<double>(limit.changed);
  const double bits = static_cast<double>(timing.bytes) * 8 / changed;
  const double least = limit.position_bits + limit.value_bits;
  const auto speed = [&](double seconds) { return static_cast<double>(elements) * 2 / seconds / 1e9; };
  if (options.json) {
    const nlohmann::json row = {{"input", name},
                                {"kernels", options.kernels->name},
                                {"elements", elements},
                                {"changed", limit.changed},
                                {"bytes", timing.bytes},
                                {"bits_per_change", bits},
                                {"limit_bits", least},
                                {"read_two_gbs", speed(timing.read)},
                                {"diff_gbs", speed(timing.diff)},
                                {"encode_gbs", speed(timing.encode)},
                                {"encode_hash_gbs", speed(timing.encode_with_hash)},
                                {"check_gbs", speed(timing.check)},
                                {"apply_gbs", speed(timing.apply)}};
    fmt::print("{}\n", row.dump());
    return;
  }
  fmt::print("{:<12} {:>9} {:>8.3f} {:>8.3f} {:>6.3f} | {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f}\n", name,
             limit.changed, bits, least, bits / least, speed(timing.read), speed(timing.diff), speed(timing.encode),
             speed(timing.encode_with_hash), speed(timing.check), speed(timing.apply));
}

// Rows of embeddings and experts: long runs; what attention touches: shorter ones; block masks: whole blocks.
constexpr Clusters kClusters[] = {{0.01, 0.2, 1024}, {0.01, 0.5, 4096}, {0.01, 0.2, 128}, {0.05, 0.3, 512}, {0.01, 0.999, 2048}};

void run(const Options& options) {
  if (!options.json) {
    fmt::print("kernels {}, {} bf16 elements; GB/s of the dense model\n", options.kernels->name, options.elements);
    fmt::print("{:<12} {:>9} {:>8} {:>8} {:>6} | {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "input", "changed", "b/chg", "limit",
               "ratio", "read 2", "diff", "encode", "enc+hash", "check", "apply");
  }
  const HugeBuffer base(options.elements * 2), target(options.elements * 2), held(options.elements * 2);
  const std::vector<double> densities =
      options.density > 0 ? std::vector{options.density} : std::vector{0.003, 0.01, 0.02, 0.05, 0.5};
  for (const double density : densities) {
    const Limit limit = fill_iid(reinterpret_cast<std::uint16_t*>(base.data()), reinterpret_cast<std::uint16_t*>(target.data()),
                                 options.elements, density, 1);
    const Timing timing = measure(base.data(), target.data(), held.data(), options.elements, options);
    report(fmt::format("iid {:g} %", density * 100), limit, timing, options.elements, options);
  }
  for (const Clusters& clusters : kClusters) {
    if (options.density > 0) break;
    const Limit limit = fill_clustered(reinterpret_cast<std::uint16_t*>(base.data()),
                                       reinterpret_cast<std::uint16_t*>(target.data()), options.elements, clusters, 1);
    const Timing timing = measure(base.data(), target.data(), held.data(), options.elements, options);
    report(fmt::format("{:g}% in {:g}s", clusters.density * 100, clusters.run), limit, timing, options.elements, options);
  }
  for (int step = 1; !options.trace.empty() && step <= 8; ++step) {
    const auto old_values = read_bf16(fmt::format("{}/weights/step_{:02d}.safetensors", options.trace, step - 1));
    const auto new_values = read_bf16(fmt::format("{}/weights/step_{:02d}.safetensors", options.trace, step));
    if (old_values.empty() || old_values.size() != new_values.size()) {
      fmt::print(stderr, "no trace in {}\n", options.trace);
      return;
    }
    std::vector<std::uint16_t> copy = old_values;
    const auto* from = reinterpret_cast<const std::byte*>(old_values.data());
    const auto* to = reinterpret_cast<const std::byte*>(new_values.data());
    const Timing timing = measure(from, to, reinterpret_cast<std::byte*>(copy.data()), old_values.size(), options);
    report(fmt::format("trace {}", step), limit_of(old_values.data(), new_values.data(), old_values.size()), timing,
           old_values.size(), options);
  }
}

}  // namespace
}  // namespace sparcl::bench

int main(int argc, char** argv) {
  sparcl::bench::Options options;
  std::string kernels = "cpu";
  CLI::App app("Size and speed of the codec on one core");
  app.add_option("--elements", options.elements, "bf16 weights of the made-up inputs")->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats)->check(CLI::PositiveNumber);
  app.add_option("--density", options.density, "one density instead of 0.003, 0.01, 0.02, 0.05 and 0.5");
  app.add_option("--trace", options.trace, "folder with weights/step_NN.safetensors");
  app.add_option("--kernels", kernels)->check(CLI::IsMember({"ref", "cpu"}));
  app.add_flag("--json", options.json, "one JSON line a row");
  CLI11_PARSE(app, argc, argv);
  if (kernels == "ref") options.kernels = &sparcl::kernels::reference_kernels();
  sparcl::bench::run(options);
}
