#pragma once
// Block routine that combines rows: each thread has its own columns, and reads each of their
// elements once.

#include "kernels/cuda/combine_number.cuh"
#include "kernels/cuda/combine_work.hpp"
#include "kernels/cuda/wide_loads.cuh"

namespace sparcl::kernels::cuda {

template <DataType kType, ReduceOp kAsked>
struct Columns {
  using Number = Combined<kType>;
  using Stored = typename Number::Stored;
  using Accumulator = typename Number::Accumulator;
  static constexpr ReduceOp kOp = kOpOf<kType, kAsked>;
  static constexpr unsigned kItems = combine_items(sizeof(Accumulator));
  using Values = Accumulator[kItems];

  // into = before op into: `before` are ranks that come before.
  __device__ static void combine(const Values& before, Values& into) {
    SPARCL_UNROLL
    for (unsigned n = 0; n < kItems; ++n) into[n] = combined<kOp>(before[n], into[n]);
  }

  const CombineWork& work;
  std::uint64_t first;  // of the columns: they are kThreads apart

  // Beyond the end the first is loaded once more, so that no branch comes between.
  __device__ std::uint64_t at(unsigned n) const {
    return first + n * kThreads < work.rows.count ? first + n * kThreads : first;
  }

  // T of kCombineRows rows, or fewer at the end. All are loaded before the first is used.
  __device__ void combine_group(std::uint32_t row, Values& into) const {
    Stored loaded[kCombineRows][kItems] = {};
    SPARCL_UNROLL
    for (unsigned r = 0; r < kCombineRows; ++r) {
      if (row + r >= work.rows.ranks) continue;
      const auto* const values = reinterpret_cast<const Stored*>(
          static_cast<const char*>(work.rows.first) + (row + r) * work.rows.stride_bytes);
      SPARCL_UNROLL
      for (unsigned n = 0; n < kItems; ++n) loaded[r][n] = values[at(n)];
    }
    Values widened[kCombineRows];
    SPARCL_UNROLL
    for (unsigned r = 0; r < kCombineRows; ++r) {
      SPARCL_UNROLL
      for (unsigned n = 0; n < kItems; ++n) widened[r][n] = Number::widen(loaded[r][n]);
    }
    static_assert(kCombineRows == 4);
    const std::uint32_t rows = work.rows.ranks - row;
    SPARCL_UNROLL
    for (unsigned n = 0; n < kItems; ++n) {
      Accumulator value = widened[0][n], rest = widened[2][n];
      if (rows > 1) value = combined<kOp>(value, widened[1][n]);
      if (rows > 3) rest = combined<kOp>(rest, widened[3][n]);
      into[n] = rows > 2 ? combined<kOp>(value, rest) : value;
    }
  }

  // Groups in the order of a binary counter: level l holds T of 2^l groups if bit l of their number
  // is set. The last group may have fewer rows. It is combined with the levels from the lowest on,
  // so T is the same as over single ranks.
  __device__ void combine_all(Values& value) const {
    Values levels[kCombineLevels] = {};
    const std::uint32_t last = (work.rows.ranks - 1) / kCombineRows;
    for (std::uint32_t group = 0;; ++group) {
      combine_group(group * kCombineRows, value);
      if (group == last) break;
      bool carries = true;
      SPARCL_UNROLL
      for (unsigned level = 0; level < kCombineLevels; ++level) {
        if (!carries) continue;
        if ((group >> level & 1) != 0) {
          combine(levels[level], value);
        } else {
          carries = false;
          SPARCL_UNROLL
          for (unsigned n = 0; n < kItems; ++n) levels[level][n] = value[n];
        }
      }
    }
    SPARCL_UNROLL
    for (unsigned level = 0; level < kCombineLevels; ++level) {
      if ((last >> level & 1) != 0) combine(levels[level], value);
    }
  }
};

template <DataType kType, ReduceOp kOp>
__device__ inline void combine_columns(const CombineWork& work) {
  using Mine = Columns<kType, kOp>;
  const Mine mine{work, std::uint64_t{blockIdx.x} * Mine::kItems * kThreads + threadIdx.x};
  if (mine.first >= work.rows.count) return;
  typename Mine::Values value;
  mine.combine_all(value);
  auto* const result = static_cast<typename Mine::Stored*>(work.result);
  SPARCL_UNROLL
  for (unsigned n = 0; n < Mine::kItems; ++n) {
    if (mine.first + n * kThreads >= work.rows.count) continue;
    result[mine.first + n * kThreads] = Mine::Number::finished(value[n], work.divisor);
  }
}

}  // namespace sparcl::kernels::cuda
