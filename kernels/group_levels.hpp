#pragma once
// Scales of 4- and 2-bit values with one bfloat16 scale for 128 (docs/decisions 0035). Integers
// only, so that hosts and devices choose the same scales.

#include <cstdint>

namespace sparcl::kernels {

// The largest upper half of a float32 s whose levels are finite: 7s of 4 bits; of 2 bits s beside
// 0, or 3s.
constexpr std::uint16_t max_group_scale(unsigned bits, bool with_zero) {
  if (bits == 4) return 0x7e12;
  return with_zero ? 0x7f7f : 0x7eaa;
}

// The nearest upper half of a float32 with these bits, ties to even, at least the smallest and at
// most `most`.
constexpr std::uint16_t nearest_group_scale(std::uint32_t bits, std::uint16_t most) {
  const std::uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>(nearest < 1 ? 1 : nearest > most ? most : nearest);
}

// Lloyd's algorithm (Least squares quantization in PCM, 1982) for two levels of sizes in
// [0, 2^kFitBits), relative to the largest.
constexpr int kFitBits = 16;
constexpr int kFitTurns = 4;  // heuristic: a fifth changes the error by less than 1 %

// The sizes of a group, and those from a limit on.
struct GroupSizes {
  std::uint32_t count, sum;
  std::uint32_t above = 0, above_sum = 0;
};

// The least squares scale of two levels is product / square. It removes product^2 / square of the
// sum of squares.
struct LevelFit {
  std::uint64_t product = 0, square = 1;

  constexpr bool is_better_than(const LevelFit& other) const {
    return product * product * other.square > other.product * other.product * square;
  }
  // The size from which on the higher level is nearer; levels: their sum.
  constexpr std::uint32_t limit(std::uint64_t levels) const {
    return static_cast<std::uint32_t>(levels * product / (2 * square));
  }
};
// 128 sizes, levels up to 3: products are below 2^25, squares below 2^11.
static_assert(2 * (kFitBits + 7 + 2) + 11 <= 64);

constexpr LevelFit level_fit(const GroupSizes& sizes, std::uint64_t low, std::uint64_t high) {
  return {low * (sizes.sum - sizes.above_sum) + high * sizes.above_sum,
          low * low * (sizes.count - sizes.above) + high * high * sizes.above};
}

}  // namespace sparcl::kernels
