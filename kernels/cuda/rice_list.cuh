#pragma once
// Lists of positions that a block of threads writes: planes of remainders, trits, a unary part
// (docs/reference/wire-format.md).

#include "kernels/bit_list.hpp"
#include "kernels/cuda/bit_window.cuh"

namespace sparcl::kernels::cuda {

struct RiceGaps {
  const std::uint16_t* positions;
  std::uint32_t count;
  GapDivisor by;

  struct Parts {
    std::uint32_t quotient, low, trit;  // low: the low bits of the remainder
  };
  __device__ std::uint32_t gap(std::uint32_t i) const {
    return i == 0 ? positions[0] : positions[i] - positions[i - 1] - 1U;
  }
  __device__ Parts parts(std::uint32_t i) const {
    const std::uint32_t own = gap(i), high = own >> by.shift;
    const std::uint32_t quotient = by.thirds ? high / 3 : high;
    return {quotient, own & ((1U << by.shift) - 1), by.thirds ? high - 3 * quotient : 0};
  }
};

struct ListSize {
  std::uint32_t plane_bits, unary_bits;

  __device__ std::uint32_t bits() const { return plane_bits + unary_bits; }
};

// The addend of one entry of a list, for a sum that gives the list's size: its quotient, and
// kOneTrit if its trit is not 0. Up to 65,536 of each, and of the values from kAboveLists on.
constexpr std::uint64_t kOneTrit = std::uint64_t{1} << 20, kAboveLists = kOneTrit * kOneTrit;
__device__ inline std::uint64_t size_of_entry(const RiceGaps::Parts& parts) {
  return parts.quotient + (parts.trit != 0 ? kOneTrit : 0);
}
__device__ inline ListSize size_of_list(const RiceGaps& list, std::uint64_t sum) {
  const std::uint32_t trits = static_cast<std::uint32_t>(sum / kOneTrit % kOneTrit),
                      quotients = static_cast<std::uint32_t>(sum % kOneTrit);
  return {list.count * list.by.shift + (list.by.thirds ? list.count + trits : 0),
          list.count + quotients};
}

__device__ inline ListSize measure_list(BlockSumsShared& shared, const RiceGaps& list) {
  std::uint64_t own = 0;
  for (std::uint32_t i = threadIdx.x; i < list.count; i += kThreads)
    own += size_of_entry(list.parts(i));
  return size_of_list(list, sum_of_block(shared, own));
}

__device__ inline void append_planes(CompactionShared& shared, BitSink& sink,
                                     const RiceGaps& list) {
  sink.append_planes(list.by.shift, list.count, [&](std::uint32_t i) { return list.parts(i).low; });
  if (!list.by.thirds) return;
  sink.append_plane(list.count, [&](std::uint32_t i) { return list.parts(i).trit != 0; });
  append_codes(
      shared, sink, list.count, kMaxPartBits,
      [&](std::uint32_t i) { return list.parts(i).trit != 0 ? 1U : 0U; },
      [&](std::uint32_t i, std::uint32_t place) {
        if (list.parts(i).trit == 2) sink.put_one(place);
      });
}

__device__ inline void append_unary(CompactionShared& shared, BitSink& sink, const RiceGaps& list) {
  append_codes(
      shared, sink, list.count, kMaxPartBits,
      [&](std::uint32_t i) { return list.parts(i).quotient + 1; },
      [&](std::uint32_t i, std::uint32_t place) { sink.put_one(place + list.parts(i).quotient); });
}

}  // namespace sparcl::kernels::cuda
