// Speed of the state hash's kernels, body by body, beside XXH3 on the same bytes: medians of
// processor time on one core.
//   bench_hash

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "bench/codec/huge_buffer.hpp"
#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"

namespace sparcl::bench {
namespace {

constexpr std::size_t kBlockBytes = 131072;  // 65,536 elements of two bytes
constexpr std::size_t kBlocks = 512;
constexpr int kRepeats = 15;

double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Work>
double median_seconds(Work work) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const double start = now();
    work();
    seconds.push_back(now() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepeats / 2, seconds.end());
  return seconds[kRepeats / 2];
}

struct Changes {  // of one block
  std::vector<std::uint16_t> positions;
  std::vector<std::byte> olds;
  std::vector<std::byte> news;
};

std::vector<Changes> changes(double density, std::size_t width) {
  std::mt19937_64 random(1);
  std::bernoulli_distribution is_changed(density);
  std::vector<Changes> all(64);
  for (Changes& block : all) {
    for (std::uint32_t i = 0; i < 65536; ++i) {
      if (is_changed(random)) block.positions.push_back(static_cast<std::uint16_t>(i));
    }
    block.olds.resize(block.positions.size() * width);
    for (std::byte& byte : block.olds) byte = static_cast<std::byte>(random());
    block.news = block.olds;
  }
  return all;
}

volatile std::uint64_t keep;

// GB/s of hash(bytes) over all blocks: where they lie in memory, and of one block again and again
// in the cache.
template <class Hash>
void report_dense(const char* name, const HugeBuffer& memory, Hash hash) {
  const auto speed = [&](std::size_t step) {
    const double seconds = median_seconds([&] {
      for (std::size_t i = 0; i < kBlocks; ++i) keep = keep + hash(memory.data() + i * step);
    });
    return static_cast<double>(kBlocks * kBlockBytes) / seconds / 1e9;
  };
  fmt::print("{:<16} {:>8.1f} {:>8.1f} GB/s\n", name, speed(kBlockBytes), speed(0));
}

// Nanoseconds a change for both sets of values.
template <class Hash>
double per_change(const std::vector<Changes>& blocks, Hash hash) {
  std::size_t total = 0;
  for (const Changes& block : blocks) total += block.positions.size();
  const double seconds = median_seconds([&] {
    for (const Changes& block : blocks) keep = keep + hash(block);
  });
  return 1e9 * seconds / static_cast<double>(total);
}

void run() {
  HugeBuffer memory(kBlocks * kBlockBytes);
  std::mt19937_64 random(2);
  for (std::size_t i = 0; i < kBlocks * kBlockBytes; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(memory.data() + i, &word, 8);
  }
  std::vector<const kernels::KernelSet*> sets{&kernels::reference_kernels()};
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) sets.push_back(&set);

  fmt::print("all words        from memory, in cache\n");
  for (const kernels::KernelSet* set : sets)
    report_dense(set->name, memory,
                 [&](const std::byte* bytes) { return set->hash_words(bytes, kBlockBytes).low; });
  report_dense("XXH3-128", memory, [](const std::byte* bytes) {
    return xxh3_128({bytes, kBlockBytes}).low;
  });
  report_dense("CRC32C", memory, [](const std::byte* bytes) {
    return std::uint64_t{crc32c({bytes, kBlockBytes})};
  });

  fmt::print("\nns a change      {:>12} {:>7} {:>7} {:>7}   (old and new values, both sums)\n", "",
             "0.3 %", "1 %", "5 %");
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    const std::vector<std::vector<Changes>> inputs{changes(0.003, width), changes(0.01, width),
                                                   changes(0.05, width)};
    const auto report = [&](const char* name, auto hash) {
      fmt::print("{:<16} {:>2} bytes each", name, width);
      for (const auto& input : inputs) fmt::print(" {:>7.2f}", per_change(input, hash));
      fmt::print("\n");
    };
    for (const kernels::KernelSet* set : sets) {
      auto* kernel = set->elements[static_cast<std::size_t>(std::countr_zero(width))].hash_changes;
      report(set->name, [&](const Changes& block) {
        const auto sums = kernel(block.positions.data(), block.positions.size(), block.olds.data(),
                                 block.news.data());
        return sums.old_values.low ^ sums.new_values.high;
      });
    }
    report("XXH3-64, twice",
           [](const Changes& block) { return xxh3_64(block.olds) ^ xxh3_64(block.news); });
  }
}

}  // namespace
}  // namespace sparcl::bench

int main() { sparcl::bench::run(); }
