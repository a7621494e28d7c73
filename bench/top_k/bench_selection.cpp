// The selection of top-k with error feedback against the pass that any error feedback needs,
// `residual += values`, in turns in the same run. Counters: ms of the selection and of the pass
// (medians), their ratio, what was selected, taken, and how many passes.
//
//   bench_selection [--benchmark_filter=float32/67108864]; SPARCL_BENCH_ROUNDS: turns, 21
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/base/data_type.hpp"
#include "src/base/number.hpp"
#include "src/sparse/selection/selection.hpp"

namespace {

using namespace sparcl;
using sparse::Selected;
using sparse::Selection;
using Clock = std::chrono::steady_clock;

struct Case {
  DataType type;
  std::uint64_t count;
  double density;
  bool has_feedback, has_hint;
};

// Normal numbers of one scale: gradients of one layer. Made in blocks that repeat, for making them
// is no part of this.
std::vector<std::byte> normal_values(DataType type, std::uint64_t count, unsigned seed) {
  const std::size_t width = element_bytes(type);
  const std::uint64_t own = std::min<std::uint64_t>(count, 1 << 20);
  std::vector<std::byte> values(count * width);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, info(type).is_float ? 1e-3 : 1e6);
  for (std::uint64_t i = 0; i < own; ++i)
    store_number(type, std::round(normal(random) * 1e9) / 1e9, values.data() + i * width);
  for (std::uint64_t i = own; i < count; i += own) {
    const std::uint64_t size = std::min(own, count - i);
    std::copy_n(values.begin(), size * width,
                values.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
  return values;
}

double milliseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

template <class Value, class Acc>
void add_pass(const std::byte* values, std::byte* residual, std::uint64_t count) {
  const Value* __restrict in = reinterpret_cast<const Value*>(values);
  Acc* __restrict out = reinterpret_cast<Acc*>(residual);
  for (std::uint64_t i = 0; i < count; ++i) out[i] += static_cast<Acc>(in[i]);
}

struct Bfloat16 {
  std::uint16_t bits;
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

auto pass_of(DataType type) {
  if (type == DataType::kBfloat16) return add_pass<Bfloat16, float>;
  if (type == DataType::kFloat64) return add_pass<double, double>;
  if (type == DataType::kInt32) return add_pass<std::uint32_t, std::uint32_t>;
  return add_pass<float, float>;
}

void run(benchmark::State& state, const Case& what) {
  const std::vector<std::byte> values = normal_values(what.type, what.count, 1);
  const DataType accumulator = kernels::accumulator_type(what.type);
  std::vector<std::byte> own = normal_values(accumulator, what.count, 2), other = own;
  const auto pass = pass_of(what.type);
  const auto k =
      static_cast<std::uint64_t>(std::llround(static_cast<double>(what.count) * what.density));
  Selection selection(what.type, kernels::cpu_kernels());
  selection.reserve(what.count, k);
  std::byte* residual = what.has_feedback ? own.data() : nullptr;
  Selected last = selection.select(values.data(), residual, what.count, k);
  std::vector<double> passes, selects;
  for (auto _ : state) {
    auto begin = Clock::now();
    pass(values.data(), other.data(), what.count);
    passes.push_back(milliseconds(begin));
    begin = Clock::now();
    last = selection.select(values.data(), residual, what.count, k, what.has_hint ? last.least : 0);
    selects.push_back(milliseconds(begin));
    const std::size_t width =
        element_bytes(accumulator);  // sent values leave the residual, as in a training
    for (const std::uint64_t i : last.indices) std::memset(own.data() + i * width, 0, width);
  }
  state.counters["select_ms"] = median(selects);
  state.counters["pass_ms"] = median(passes);
  state.counters["ratio"] = median(selects) / median(passes);
  state.counters["selected"] = static_cast<double>(last.indices.size());
  state.counters["taken"] = static_cast<double>(last.taken);
  state.counters["passes"] = last.passes;
}

void add(const Case& what, int rounds) {
  const std::string name =
      fmt::format("{}/{}/{}{}{}", info(what.type).name, what.count, what.density,
                  what.has_feedback ? "/feedback" : "", what.has_hint ? "/hint" : "");
  benchmark::RegisterBenchmark(name.c_str(), [what](benchmark::State& state) { run(state, what); })
      ->Iterations(rounds)
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  const char* asked = std::getenv("SPARCL_BENCH_ROUNDS");
  int rounds = 21;
  if (asked != nullptr) (void)std::from_chars(asked, asked + std::strlen(asked), rounds);
  rounds = std::max(1, rounds);
  for (const std::uint64_t count :
       {std::uint64_t{1} << 16, std::uint64_t{1} << 22, std::uint64_t{1} << 26}) {
    for (const double density : {0.001, 0.01, 0.1}) {
      add({DataType::kFloat32, count, density, true, false}, rounds);
      add({DataType::kFloat32, count, density, false, false}, rounds);
    }
    add({DataType::kFloat32, count, 0.01, true, true}, rounds);
    for (const DataType type : {DataType::kBfloat16, DataType::kFloat64, DataType::kInt32})
      add({type, count, 0.01, true, false}, rounds);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
