#pragma once
// Arguments of the launches that combine rows.

#include "kernels/cuda/device_work.hpp"
#include "kernels/device_combine.hpp"

namespace sparcl::kernels::cuda {

struct CombineWork {
  DeviceRows rows;        // at least one row of at least one element
  std::uint32_t divisor;  // 1: no mean
  void* result;
};

// Rows whose loads are in flight at once, and levels of the tree above such groups, enough for
// kMaxCombinedRows.
constexpr unsigned kCombineRows = 4, kCombineLevels = 8;
static_assert(kCombineRows << kCombineLevels == kMaxCombinedRows);

// Columns of a thread. Its levels of the tree are in registers: 32 registers for every type.
// Heuristic.
constexpr unsigned combine_items(std::size_t accumulator_bytes) {
  return accumulator_bytes > 4 ? 2 : 4;
}
constexpr std::uint64_t combine_tiles(std::uint64_t count, std::size_t accumulator_bytes) {
  const std::uint64_t tile = std::uint64_t{combine_items(accumulator_bytes)} * kThreads;
  return (count + tile - 1) / tile;
}

}  // namespace sparcl::kernels::cuda
