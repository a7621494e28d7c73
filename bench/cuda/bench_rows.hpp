#pragma once
// Rows of the bench's table: medians of milliseconds beside their limits.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "src/base/status.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::bench {

constexpr int kRounds = 21;

inline void must_be_ok(const Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// Median of milliseconds, by events of the stream, after one call that is not counted. before:
// prepares each call. The GPU is busy until the call has been enqueued, so that the host's time for
// it is not measured.
double median_ms(
    const std::function<void()>& call, const std::function<void()>& before = [] {});

// Measures the copy's bandwidth, before all rows and after them, because clocks change. Rows are
// compared with the larger one.
void measure_copy();

// The time of reading or writing `bytes` at that bandwidth; known once rows are printed.
double floor_ms(double bytes);

// beside is called when rows are printed, all at the end. Until then the error stream shows the
// bench's progress.
void add_row(
    const std::string& what, double ms,
    std::function<std::string()> beside = [] { return std::string(); });
void print_rows();

// A file each.
void measure_entries(std::uint64_t count);
void measure_blocks(std::uint64_t count);
void measure_broadcast(std::uint64_t count);
void measure_states(std::uint64_t count);
void measure_top_k(std::uint64_t count);
void measure_masks(std::uint64_t count);
void measure_model();  // 30 GB, or as much as the GPU has room for

}  // namespace sparcl::bench
