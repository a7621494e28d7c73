#pragma once
// Block routine that combines rows: each thread has its own columns, and reads each of their
// elements once.

#include "kernels/cuda/combine_number.cuh"
#include "kernels/cuda/combine_work.hpp"
#include "kernels/cuda/wide_loads.cuh"

namespace sparcl::kernels::cuda {

// kIsWide: a thread's columns lie beside each other, and are loaded at once. Otherwise they are
// kThreads apart.
template <DataType kType, ReduceOp kAsked, bool kIsWide>
struct Columns {
  using Number = Combined<kType>;
  using Stored = typename Number::Stored;
  using Accumulator = typename Number::Accumulator;
  static constexpr ReduceOp kOp = kOpOf<kType, kAsked>;
  static constexpr unsigned kItems = combine_items(sizeof(Stored));
  struct alignas(kItems * sizeof(Stored)) Wide {
    std::uint32_t words[kItems * sizeof(Stored) / sizeof(std::uint32_t)];
  };
  using Values = Accumulator[kItems];

  const CombineWork& work;
  Accumulator* levels;  // of the block
  std::uint64_t first;

  __device__ static std::uint64_t tile() { return std::uint64_t{blockIdx.x} * kItems * kThreads; }
  __device__ static bool may_be_wide(const CombineWork& work) {
    const std::uintptr_t places = reinterpret_cast<std::uintptr_t>(work.rows.first) |
                                  reinterpret_cast<std::uintptr_t>(work.result) |
                                  work.rows.stride_bytes;
    return places % sizeof(Wide) == 0 && tile() + kItems * kThreads <= work.rows.count;
  }
  __device__ static void run(void* block_levels, const CombineWork& work) {
    const Columns mine{work, static_cast<Accumulator*>(block_levels),
                       tile() + (kIsWide ? kItems : 1) * threadIdx.x};
    if (mine.first >= work.rows.count) return;
    Values value;
    mine.combine_all(value);
    mine.store(value);
  }

  // Beyond the end the first is loaded once more, so that no branch comes between.
  __device__ std::uint64_t at(unsigned n) const {
    return first + n * kThreads < work.rows.count ? first + n * kThreads : first;
  }

  __device__ void load(std::uint32_t row, Stored (&loaded)[kItems]) const {
    const auto* const values = reinterpret_cast<const Stored*>(
        static_cast<const char*>(work.rows.first) + row * work.rows.stride_bytes);
    if constexpr (kIsWide) {
      const Wide wide = *reinterpret_cast<const Wide*>(values + first);
      memcpy(loaded, wide.words, sizeof wide);
    } else {
      SPARCL_UNROLL
      for (unsigned n = 0; n < kItems; ++n) loaded[n] = values[at(n)];
    }
  }

  // T of kCombineRows rows, or fewer at the end. All are loaded before the first is used.
  __device__ void combine_group(std::uint32_t row, Values& into) const {
    const std::uint32_t rows = work.rows.ranks - row;
    Stored loaded[kCombineRows][kItems] = {};
    SPARCL_UNROLL
    for (unsigned r = 0; r < kCombineRows; ++r) {
      if (r < rows) load(row + r, loaded[r]);
    }
    static_assert(kCombineRows == 4);
    SPARCL_UNROLL
    for (unsigned n = 0; n < kItems; ++n) {
      Accumulator value = Number::widen(loaded[0][n]), rest = Number::widen(loaded[2][n]);
      if (rows > 1) value = combined<kOp>(value, Number::widen(loaded[1][n]));
      if (rows > 3) rest = combined<kOp>(rest, Number::widen(loaded[3][n]));
      into[n] = rows > 2 ? combined<kOp>(value, rest) : value;
    }
  }

  // The thread's own place in a level.
  __device__ Accumulator& level_value(unsigned level, unsigned n) const {
    return levels[(level * kItems + n) * kThreads + threadIdx.x];
  }
  // into = a level op into: its ranks come before.
  __device__ void combine_level(unsigned level, Values& into) const {
    SPARCL_UNROLL
    for (unsigned n = 0; n < kItems; ++n) into[n] = combined<kOp>(level_value(level, n), into[n]);
  }

  // Groups in the order of a binary counter: level l holds T of 2^l groups if bit l of their number
  // is set. The last group may have fewer rows. It is combined with the levels from the lowest on,
  // so T is the same as over single ranks.
  __device__ void combine_all(Values& value) const {
    const std::uint32_t last = (work.rows.ranks - 1) / kCombineRows;
    for (std::uint32_t group = 0; group < last; ++group) {
      combine_group(group * kCombineRows, value);
      unsigned level = 0;
      for (; (group >> level & 1) != 0; ++level) combine_level(level, value);
      SPARCL_UNROLL
      for (unsigned n = 0; n < kItems; ++n) level_value(level, n) = value[n];
    }
    combine_group(last * kCombineRows, value);
    for (unsigned level = 0; last >> level != 0; ++level) {
      if ((last >> level & 1) != 0) combine_level(level, value);
    }
  }

  __device__ void store(const Values& value) const {
    auto* const result = static_cast<Stored*>(work.result);
    Stored finished[kItems];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kItems; ++n) finished[n] = Number::finished(value[n], work.divisor);
    if constexpr (kIsWide) {
      Wide wide;
      memcpy(wide.words, finished, sizeof wide);
      *reinterpret_cast<Wide*>(result + first) = wide;
    } else {
      SPARCL_UNROLL
      for (unsigned n = 0; n < kItems; ++n) {
        if (first + n * kThreads < work.rows.count) result[first + n * kThreads] = finished[n];
      }
    }
  }
};

// levels: combine_level_bytes() of memory that the block shares; each thread uses its own part.
template <DataType kType, ReduceOp kOp>
__device__ inline void combine_columns(void* levels, const CombineWork& work) {
  if (Columns<kType, kOp, true>::may_be_wide(work))
    Columns<kType, kOp, true>::run(levels, work);
  else
    Columns<kType, kOp, false>::run(levels, work);
}

}  // namespace sparcl::kernels::cuda
