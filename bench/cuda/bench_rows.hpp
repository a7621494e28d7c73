#pragma once
// Rows of the bench's table: medians of milliseconds beside what they are held against.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "tests/gpu/gpu_arrays.hpp"

namespace sparcl::bench {

constexpr int kRounds = 21;

inline void must_be_ok(const Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// Median of milliseconds, by events of the stream, after one call that is not counted. before: what the call needs afresh.
inline double median_ms(
    const std::function<void()>& call, const std::function<void()>& before = [] {}) {
  cudaEvent_t begin = nullptr, end = nullptr;
  test::must(cudaEventCreate(&begin));
  test::must(cudaEventCreate(&end));
  std::vector<double> times;
  for (int round = 0; round <= kRounds; ++round) {
    before();
    test::must(cudaEventRecord(begin));
    call();
    test::must(cudaEventRecord(end));
    test::must(cudaEventSynchronize(end));
    float ms = 0;
    test::must(cudaEventElapsedTime(&ms, begin, end));
    if (round > 0) times.push_back(ms);
  }
  test::must(cudaEventDestroy(begin));
  test::must(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

inline void print_row(const std::string& what, double ms, const std::string& beside) {
  fmt::print("| {} | {:.3f} | {} |\n", what, ms, beside);
}

// A file each.
void measure_entries(std::uint64_t count);
void measure_blocks(std::uint64_t count);
void measure_broadcast(std::uint64_t count);
void measure_model();  // 30 GB, or as much as the GPU has room for

}  // namespace sparcl::bench
