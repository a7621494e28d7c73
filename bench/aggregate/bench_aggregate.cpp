// The sum of a round's contributions, and what a shard makes of it:
//   bench_aggregate [--benchmark_filter=...]
// Contributions have 1 % of 16 Mi elements each, half of them common to all. entries/s counts the
// contributions' entries; held and spilled are the largest memory and the most bytes in files of
// the tree, as multiples of the sum. With spill=1 parts wait in files beyond twice the largest one.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "src/aggregate/outer/shard.hpp"
#include "src/aggregate/sum/slot_tree.hpp"
#include "src/base/buffer_pool.hpp"
#include "src/base/seeded_random.hpp"

namespace sparcl::aggregate {
namespace {

constexpr std::uint64_t kElements = 16 << 20;
constexpr sparse::BlockRun kRun{0, kElements >> 16, 16};
constexpr double kDensity = 0.01;

// Each element with this probability, by a hash of its index.
bool is_drawn(std::uint64_t element, std::uint64_t seed) {
  return static_cast<double>(mix64(element ^ mix64(seed)) >> 11) * 0x1.0p-53 < kDensity / 2;
}

Buffer contribution(BufferPool& buffers, std::uint64_t worker) {
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = 0; i < kElements; ++i) {
    if (is_drawn(i, 1) || is_drawn(i, 100 + worker)) indices.push_back(i);
  }
  SeededRandom random(worker);
  std::vector<float> values(indices.size());
  for (float& value : values) value = static_cast<float>(random.unit()) - 0.5F;
  return sparse::write_part(buffers, kernels::cpu_kernels(), kRun, indices,
                            reinterpret_cast<const std::byte*>(values.data()), sizeof(float));
}

std::uint64_t entries_of(const Buffer& part) {
  return sparse::PartView::read(kernels::cpu_kernels(), part.bytes(), kRun, sizeof(float))
      ->entries();
}

// Contributions arrive in a random order.
void sum_contributions(benchmark::State& state) {
  const auto workers = static_cast<std::size_t>(state.range(0));
  BufferPool buffers;
  std::vector<Buffer> parts;
  for (std::size_t worker = 0; worker < std::min<std::size_t>(workers, 16); ++worker)
    parts.push_back(contribution(buffers, worker));
  std::vector<std::uint32_t> order(workers);
  for (std::size_t i = 0; i < workers; ++i) order[i] = static_cast<std::uint32_t>(i);
  SeededRandom random(7);
  for (std::size_t i = workers; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  const std::string folder = state.range(1) != 0 ? std::filesystem::current_path().string() : "";
  std::uint64_t entries = 0, held = 0, spilled = 0, sum_bytes = 1;
  for (const std::uint32_t slot : order) entries += entries_of(parts[slot % parts.size()]);
  for (auto _ : state) {
    WaitingParts waiting(folder, 0);
    SlotTree tree(buffers, kernels::cpu_kernels(), kRun, waiting);
    for (const std::uint32_t slot : order) {
      (void)tree.add({slot, 0}, parts[slot % parts.size()]);
      held = std::max(held, waiting.held()->memory.load());
      spilled = std::max(spilled, waiting.held()->files.load());
    }
    const Buffer sum = tree.finish();
    sum_bytes = sum.size();
    benchmark::DoNotOptimize(sum.data());
  }
  state.counters["entries/s"] = benchmark::Counter(static_cast<double>(entries),
                                                   benchmark::Counter::kIsIterationInvariantRate);
  state.counters["held"] = static_cast<double>(held) / static_cast<double>(sum_bytes);
  state.counters["spilled"] = static_cast<double>(spilled) / static_cast<double>(sum_bytes);
}
BENCHMARK(sum_contributions)
    ->ArgNames({"workers", "spill"})
    ->ArgsProduct({{8, 64, 256}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

// From the sum of 8 contributions to 1 % of the elements.
void step_shard(benchmark::State& state) {
  BufferPool buffers;
  WaitingParts waiting;
  SlotTree tree(buffers, kernels::cpu_kernels(), kRun, waiting);
  for (std::uint32_t slot = 0; slot < 8; ++slot)
    (void)tree.add({slot, 0}, contribution(buffers, slot));
  const Buffer sum = tree.finish();
  ShardOptions options;
  options.count = kElements;
  options.outer.kind = static_cast<OuterKind>(state.range(0));
  options.outer.momentum = 0.9;
  options.has_cut = true;
  Result<Shard> shard = Shard::create(options, kernels::cpu_kernels());
  const ShardInput input{sum.bytes(), {}, 8, 8};
  for (auto _ : state) {
    if (!shard->propose(input, kElements / 100).ok()) return state.SkipWithError("no step");
    const ShardResult result = shard->keep();
    benchmark::DoNotOptimize(result.values.data());
  }
  state.SetLabel(outer_row(options.outer.kind).name);
  state.counters["elements/s"] = benchmark::Counter(static_cast<double>(kElements),
                                                    benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(step_shard)->DenseRange(0, 4)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sparcl::aggregate

BENCHMARK_MAIN();
