#pragma once
// Arguments of the launches that combine rows.

#include <bit>

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

// Columns of a thread: 16 bytes of a row, or 8 elements of one byte.
constexpr unsigned combine_items(std::size_t element_bytes) {
  return element_bytes == 1 ? 8 : static_cast<unsigned>(16 / element_bytes);
}
constexpr std::uint64_t combine_tiles(std::uint64_t count, std::size_t element_bytes) {
  const std::uint64_t tile = std::uint64_t{combine_items(element_bytes)} * kThreads;
  return (count + tile - 1) / tile;
}

// Memory of a block for its levels of the tree.
constexpr std::size_t combine_level_bytes(std::uint32_t ranks, std::size_t element_bytes) {
  const auto levels = static_cast<unsigned>(std::bit_width((ranks - 1) / kCombineRows));
  const std::size_t accumulator_bytes = element_bytes > 4 ? element_bytes : 4;
  return levels * combine_items(element_bytes) * kThreads * accumulator_bytes;
}
constexpr std::size_t kMaxLevelBytes = combine_level_bytes(kMaxCombinedRows, 2);

}  // namespace sparcl::kernels::cuda
