// The stages of a sparse sum on one core, in nanoseconds an entry: packing, summing the own blocks,
// and unpacking the results. Arguments: ranks, and a rank's density in millionths. The floor of
// packing and unpacking is the memory that they write.
#include <benchmark/benchmark.h>

#include <cmath>
#include <map>
#include <random>

#include "src/base/buffer_pool.hpp"
#include "src/sparse/parts/part_code.hpp"
#include "src/sparse/parts/part_sum.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::uint64_t kElements = 4 << 20;
const sparse::BlockRun kRun{0, kElements >> 16, 16, 2};

BufferPool& buffers() {
  static BufferPool pool;
  return pool;
}

const kernels::KernelSet& body() { return kernels::cpu_kernels(); }

std::vector<std::uint64_t> support(double density, unsigned seed) {
  std::mt19937_64 random(seed);
  std::geometric_distribution<std::uint64_t> gap(density);
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = gap(random); i < kElements; i += 1 + gap(random)) indices.push_back(i);
  return indices;
}

struct Rank {
  std::vector<std::uint64_t> indices;
  std::vector<float> values;
  Buffer part;
};

const std::vector<Rank>& ranks_of(std::int64_t ranks, std::int64_t millionths) {
  static std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Rank>> made;
  std::vector<Rank>& all = made[{ranks, millionths}];
  for (std::int64_t rank = static_cast<std::int64_t>(all.size()); rank < ranks; ++rank) {
    Rank one{support(static_cast<double>(millionths) * 1e-6, static_cast<unsigned>(rank)), {}, {}};
    one.values.assign(one.indices.size(), 1.5f);
    one.part = write_part(buffers(), body(), kRun, one.indices,
                          reinterpret_cast<const std::byte*>(one.values.data()), 4);
    all.push_back(std::move(one));
  }
  return all;
}

void per_entry(benchmark::State& state, std::size_t entries) {
  state.counters["ns/entry"] = benchmark::Counter(
      static_cast<double>(entries) * 1e-9 * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["entries"] = static_cast<double>(entries);
}

void pack(benchmark::State& state) {
  const Rank& rank = ranks_of(1, state.range(1)).front();
  for (auto _ : state) {
    const Buffer part = write_part(buffers(), body(), kRun, rank.indices,
                                   reinterpret_cast<const std::byte*>(rank.values.data()), 4);
    benchmark::DoNotOptimize(part.data());
  }
  per_entry(state, rank.indices.size());
}

// As parts travel over slow links; bytes/entry: of the message, values and all.
void code(benchmark::State& state) {
  const Rank& rank = ranks_of(1, state.range(1)).front();
  sparse::PartCoder coder(body());
  std::size_t bytes = 0;
  for (auto _ : state)
    bytes = coder.code(buffers(), rank.part.bytes(), {kRun, 4}).value_or(rank.part).size();
  per_entry(state, rank.indices.size());
  state.counters["bytes/entry"] =
      static_cast<double>(bytes) / static_cast<double>(rank.indices.size());
}

void expand(benchmark::State& state) {
  const Rank& rank = ranks_of(1, state.range(1)).front();
  sparse::PartCoder coder(body());
  const sparse::PartShape shape{kRun, 4};
  const std::optional<Buffer> message = coder.code(buffers(), rank.part.bytes(), shape);
  if (!message) return state.SkipWithError("coding saves nothing");
  for (auto _ : state)
    benchmark::DoNotOptimize(coder.expand(buffers(), message->bytes(), shape, UINT64_MAX)->data());
  per_entry(state, rank.indices.size());
}

// Selected values of 16 Mi elements, one in 64, rounded to a form.
struct Selected {
  sparse::PartShape shape{{0, 256, 16, 2}, 4};
  std::vector<float> exact;
  Buffer part;

  explicit Selected(sparse::ValueForm form) {
    shape.form = form;
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    std::vector<std::uint64_t> indices;
    for (std::uint64_t i = 0; i < shape.run.end_index(); ++i) {
      const float value = normal(random);
      if (std::abs(value) < 2.4176F) continue;
      indices.push_back(i);
      exact.push_back(value);
    }
    std::vector<float> sent(exact.size());
    round(sent);
    part = write_part(buffers(), body(), shape.run, indices,
                      reinterpret_cast<const std::byte*>(sent.data()), 4);
  }
  void round(std::vector<float>& to) const {
    sparse::round_to_wire(body(), {DataType::kFloat32, DataType::kFloat32, shape.form},
                          reinterpret_cast<const std::byte*>(exact.data()), exact.size(),
                          reinterpret_cast<std::byte*>(to.data()));
  }
};

template <sparse::ValueForm kForm>
const Selected& selected() {
  static const Selected made(kForm);
  return made;
}

template <sparse::ValueForm kForm>
void round_selected(benchmark::State& state) {
  std::vector<float> sent(selected<kForm>().exact.size());
  for (auto _ : state) {
    selected<kForm>().round(sent);
    benchmark::DoNotOptimize(sent.data());
  }
  per_entry(state, sent.size());
}

template <sparse::ValueForm kForm>
void code_selected(benchmark::State& state) {
  const Selected& given = selected<kForm>();
  sparse::PartCoder coder(body());
  std::size_t bytes = 0;
  for (auto _ : state)
    bytes = coder.code(buffers(), given.part.bytes(), given.shape).value_or(given.part).size();
  per_entry(state, given.exact.size());
  state.counters["bits/entry"] =
      8 * static_cast<double>(bytes) / static_cast<double>(given.exact.size());
}

template <sparse::ValueForm kForm>
void expand_selected(benchmark::State& state) {
  const Selected& given = selected<kForm>();
  sparse::PartCoder coder(body());
  const std::optional<Buffer> message = coder.code(buffers(), given.part.bytes(), given.shape);
  if (!message) return state.SkipWithError("coding saves nothing");
  for (auto _ : state)
    benchmark::DoNotOptimize(
        coder.expand(buffers(), message->bytes(), given.shape, UINT64_MAX)->data());
  per_entry(state, given.exact.size());
}

template <Determinism kLevel>
void sum(benchmark::State& state) {
  const std::vector<Rank>& ranks = ranks_of(state.range(0), state.range(1));
  std::vector<std::span<const std::byte>> parts;
  std::size_t entries = 0;
  for (const Rank& rank : ranks) {
    parts.push_back(rank.part.bytes());
    entries += rank.indices.size();
  }
  sparse::PartSum sum(buffers(), body(), {DataType::kFloat32, {}, kLevel}, parts.size(),
                      sparse::PartValues::kElements, sparse::PartValues::kElements, 1);
  for (auto _ : state) benchmark::DoNotOptimize(sum.sum(parts, kRun)->data());
  per_entry(state, entries);
}

void arguments(benchmark::internal::Benchmark* bench) {
  for (const int ranks : {2, 4, 8}) {
    for (const int millionths : {100, 1'000, 10'000, 100'000, 300'000, 900'000})
      bench->Args({ranks, millionths});
  }
}
void densities(benchmark::internal::Benchmark* bench) {
  for (const int millionths : {100, 1'000, 10'000, 100'000, 300'000, 900'000})
    bench->Args({1, millionths});
}

BENCHMARK(pack)->Apply(densities);
BENCHMARK(code)->Apply(densities);
BENCHMARK(expand)->Apply(densities);
BENCHMARK(round_selected<sparse::ValueForm::kScaled8>);
BENCHMARK(round_selected<sparse::ValueForm::kScaled4>);
BENCHMARK(round_selected<sparse::ValueForm::kScaled2>);
BENCHMARK(code_selected<sparse::ValueForm::kUnmodified>);
BENCHMARK(code_selected<sparse::ValueForm::kScaled8>);
BENCHMARK(code_selected<sparse::ValueForm::kScaled4>);
BENCHMARK(code_selected<sparse::ValueForm::kScaled2>);
BENCHMARK(expand_selected<sparse::ValueForm::kUnmodified>);
BENCHMARK(expand_selected<sparse::ValueForm::kScaled8>);
BENCHMARK(expand_selected<sparse::ValueForm::kScaled4>);
BENCHMARK(expand_selected<sparse::ValueForm::kScaled2>);
BENCHMARK(sum<Determinism::kRuns>)->Apply(arguments);
BENCHMARK(sum<Determinism::kCanonical>)->Apply(arguments);

}  // namespace
}  // namespace sparcl::collectives

BENCHMARK_MAIN();
