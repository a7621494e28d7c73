#include "bench/cuda/bench_rows.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/cuda/bench_launches.hpp"

namespace sparcl::bench {
namespace {

using test::DeviceArray;
using test::must;

constexpr std::uint64_t kCopied = std::uint64_t{1} << 30;  // bytes: many times a cache
constexpr std::chrono::milliseconds kWarmUp{200};          // until clocks have risen

struct Row {
  std::string what;
  double ms;
  std::function<std::string()> beside;
};
std::vector<Row> rows;
std::vector<double> copies_ms;

}  // namespace

double median_ms(const std::function<void()>& call, const std::function<void()>& before) {
  cudaEvent_t begin = nullptr, end = nullptr;
  must(cudaEventCreate(&begin));
  must(cudaEventCreate(&end));
  std::vector<double> times;
  for (int round = 0; round <= kRounds; ++round) {
    before();
    must(spin(nullptr));
    must(cudaEventRecord(begin));
    call();
    must(cudaEventRecord(end));
    must(cudaEventSynchronize(end));
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin, end));
    if (round > 0) times.push_back(ms);
  }
  must(cudaEventDestroy(begin));
  must(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

void measure_copy() {
  const DeviceArray<std::byte> from(kCopied), to(kCopied);
  const auto copy = [&] {
    must(cudaMemcpyAsync(to.data(), from.data(), kCopied, cudaMemcpyDeviceToDevice));
  };
  for (const auto begin = std::chrono::steady_clock::now();
       std::chrono::steady_clock::now() - begin < kWarmUp;) {
    copy();
    must(cudaDeviceSynchronize());
  }
  copies_ms.push_back(median_ms(copy));
  const double ms = copies_ms.back();
  add_row(fmt::format("copy of 1 GiB, {} all else", copies_ms.size() == 1 ? "before" : "after"), ms,
          [ms] { return fmt::format("{:.0f} GB/s read and written", 2e-6 * kCopied / ms); });
}

double floor_ms(double bytes) {
  return *std::min_element(copies_ms.begin(), copies_ms.end()) * bytes / (2.0 * kCopied);
}

void add_row(const std::string& what, double ms, std::function<std::string()> beside) {
  fmt::print(stderr, "{}: {:.3f} ms\n", what, ms);
  rows.push_back({what, ms, std::move(beside)});
}

void print_rows() {
  fmt::print("| what | ms | beside |\n|---|---|---|\n");
  for (const Row& row : rows) fmt::print("| {} | {:.3f} | {} |\n", row.what, row.ms, row.beside());
}

}  // namespace sparcl::bench
