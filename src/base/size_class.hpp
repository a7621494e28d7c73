#pragma once
// Sizes of the pieces of a memory pool: four from one power of two to the next, so that at most a
// fifth is wasted.

#include <bit>
#include <cstddef>

namespace sparcl {

constexpr std::size_t kMinPieceBytes = 4096;

struct SizeClass {
  std::size_t number;
  std::size_t bytes;
};

constexpr SizeClass size_class(std::size_t bytes) {
  constexpr unsigned kMinLog2 = std::countr_zero(kMinPieceBytes);
  if (bytes <= kMinPieceBytes) return {0, kMinPieceBytes};
  const unsigned log2 = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;  // of the power below
  const std::size_t base = std::size_t{1} << log2, quarter = base / 4;
  const std::size_t quarters = (bytes - base + quarter - 1) / quarter;  // 1 to 4
  return {4 * (log2 - kMinLog2) + quarters, base + quarters * quarter};
}

// The number of sizes up to `max_bytes`.
constexpr std::size_t size_classes(std::size_t max_bytes) {
  return size_class(max_bytes).number + 1;
}

}  // namespace sparcl
