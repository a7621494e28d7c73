#pragma once
// Block routines of sums over ranks, in tiles of kEntryTile.

#include "kernels/cuda/accumulator.cuh"
#include "kernels/cuda/entry_block.cuh"
#include "kernels/cuda/sum_work.hpp"

namespace sparcl::kernels::cuda {

// Calls visit(i) for the elements of tile blockIdx.x below count.
template <class Visit>
__device__ inline void for_each_in_tile(std::uint64_t count, Visit visit) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kEntryTile + threadIdx.x;
  for (unsigned n = 0; n < kEntryItems; ++n) {
    if (first + n * kThreads < count) visit(first + n * kThreads);
  }
}

// Checks a tile of one list. If another block has cleared the count already, there is nothing left
// to check.
__device__ inline void check_lists(const CheckWork& work) {
  const std::uint64_t list = blockIdx.x / work.list_tiles, tile = blockIdx.x % work.list_tiles;
  auto* const words = reinterpret_cast<std::uint64_t*>(static_cast<char*>(work.lists.bytes) +
                                                       list * work.lists.stride_bytes);
  volatile std::uint64_t* const count = words;
  const std::uint64_t* const indices = words + 2;
  const std::uint64_t entries = *count;
  bool is_list = entries <= work.lists.capacity;
  for (unsigned n = 0; n < kEntryItems && is_list; ++n) {
    const std::uint64_t i = tile * kEntryTile + n * kThreads + threadIdx.x;
    if (i < entries)
      is_list = indices[i] < work.elements && (i == 0 || indices[i - 1] < indices[i]);
  }
  if (!is_list) *count = 0;
}

// The value that receivers see.
template <TopKType kSent>
__device__ inline typename Elements<kSent>::Accumulator seen_of(
    typename Elements<kSent>::Accumulator value) {
  using E = Elements<kSent>;
  return E::canonical(E::widen(E::narrow(value)));
}

template <TopKType kSent>
__device__ inline void round_values(const RoundWork& work) {
  using Accumulator = typename Elements<kSent>::Accumulator;
  const auto* const values = static_cast<const Accumulator*>(work.values);
  auto* const rounded = static_cast<Accumulator*>(work.rounded);
  for_each_in_tile(work.count, [=](std::uint64_t i) { rounded[i] = seen_of<kSent>(values[i]); });
}

// Sums level by level: T(a, b) is in row a when its two halves are in rows a and m. Each thread has
// its own columns.
template <class Value>
__device__ inline void sum_rows(const RowsWork& work) {
  auto* const rows = static_cast<Value*>(work.rows);
  for_each_in_tile(work.count, [=](std::uint64_t i) {
    for (std::uint64_t step = 1; step < work.ranks; step *= 2) {
      for (std::uint64_t row = 0; row + step < work.ranks; row += 2 * step) {
        Value& into = rows[row * work.count + i];
        into = canonical(static_cast<Value>(into + rows[(row + step) * work.count + i]));
      }
    }
  });
}

__device__ inline bool has_index(const DeviceEntries& entries, std::uint64_t count,
                                 std::uint64_t index) {
  std::uint64_t low = 0, high = count;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (entries.indices[middle] < index)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && entries.indices[low] == index;
}

template <class Value>
__device__ inline void leave_rest(const RestWork& work) {
  const auto* const values = static_cast<const Value*>(work.entries.values);
  const auto* const seen_values = static_cast<const Value*>(work.seen);
  auto* const residual = static_cast<Value*>(work.residual);
  const bool keeps_some = work.kept.indices != nullptr;
  const std::uint64_t kept = keeps_some ? count_of(work.kept, work.kept_capacity) : 0;
  for_each_in_tile(count_of(work.entries, work.capacity), [=](std::uint64_t i) {
    const std::uint64_t index = work.entries.indices[i];
    if (keeps_some && !has_index(work.kept, kept, index)) return;
    const Value value = values[i], seen = seen_values[i], rest = static_cast<Value>(value - seen);
    residual[index] = value == seen || rest != rest ? Value{0} : rest;
  });
}

// For float types.
template <TopKType kType>
__device__ inline void leave_mean(const MeanWork& work) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  const auto* const values = static_cast<const Accumulator*>(work.entries.values);
  auto* const residual = static_cast<Accumulator*>(work.residual);
  for_each_in_tile(count_of(work.entries, work.capacity), [=](std::uint64_t i) {
    Accumulator mean =
        seen_of<kType>(work.divisor > 1 ? E::divided(values[i], work.divisor) : values[i]);
    if (work.ranks > 1) mean = E::divided(mean, work.ranks);
    Accumulator& acc = residual[work.entries.indices[i]];
    const Accumulator rest = static_cast<Accumulator>(acc - mean);
    acc = acc == mean || rest != rest ? Accumulator{0} : rest;
  });
}

template <TopKType kType>
__device__ inline void key_entries(const KeepWork& work) {
  using E = Elements<kType>;
  const auto* const values = static_cast<const typename E::Accumulator*>(work.list.values);
  const std::uint64_t count = count_of(work.list, work.capacity);
  for_each_in_tile(work.capacity,
                   [=](std::uint64_t i) { work.keys[i] = i < count ? E::key(values[i]) + 1 : 0; });
}

template <class Value>
__device__ inline void take_entries(const KeepWork& work) {
  const auto* const values = static_cast<const Value*>(work.list.values);
  auto* const kept = static_cast<Value*>(work.kept.values);
  for_each_in_tile(count_of(work.kept, work.k), [=](std::uint64_t i) {
    const std::uint64_t place = work.kept.indices[i];
    work.kept.indices[i] = work.list.indices[place];
    kept[i] = values[place];
  });
}

}  // namespace sparcl::kernels::cuda
