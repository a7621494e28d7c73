#pragma once
// Block routines that write entries into an array, and that read an array at the entries' indices.

#include "kernels/cuda/accumulator.cuh"
#include "kernels/cuda/entry_work.hpp"

namespace sparcl::kernels::cuda {

// Calls put(entry, its index, fetch(entry, its index)) for the entries of tile blockIdx.x, `count`
// in all. All fetches come before the first put: compilers cannot know that arrays do not overlap,
// and would wait for each.
template <class Fetch, class Put>
__device__ inline void for_each_entry(const std::uint64_t* indices, std::uint64_t count,
                                      Fetch fetch, Put put) {
  const std::uint64_t first = std::uint64_t{blockIdx.x} * kEntryTile + threadIdx.x;
  std::uint64_t index[kEntryItems];
  decltype(fetch(first, first)) fetched[kEntryItems];
  for (unsigned n = 0; n < kEntryItems; ++n) {
    if (first + n * kThreads < count) index[n] = indices[first + n * kThreads];
  }
  for (unsigned n = 0; n < kEntryItems; ++n) {
    if (first + n * kThreads < count) fetched[n] = fetch(first + n * kThreads, index[n]);
  }
  for (unsigned n = 0; n < kEntryItems; ++n) {
    if (first + n * kThreads < count) put(first + n * kThreads, index[n], fetched[n]);
  }
}

// Limits an invalid count of a list to its capacity.
__device__ inline std::uint64_t count_of(const DeviceEntries& entries, std::uint64_t capacity) {
  const std::uint64_t count = *entries.count;
  return count < capacity ? count : capacity;
}

template <TopKType kType>
__device__ inline void scatter_entries(const EntryWork& work) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  const auto* const values = static_cast<const Accumulator*>(work.entries.values);
  auto* const array = static_cast<typename E::Stored*>(work.array);
  for_each_entry(
      work.entries.indices, count_of(work.entries, work.capacity),
      [=](std::uint64_t i, std::uint64_t) { return values[i]; },
      [=](std::uint64_t, std::uint64_t index, Accumulator value) {
        array[index] = E::narrow(work.divisor > 1 ? E::divided(value, work.divisor) : value);
      });
}

template <TopKType kType>
__device__ inline void gather_entries(const EntryWork& work) {
  using E = Elements<kType>;
  using Stored = typename E::Stored;
  const auto* const array = static_cast<const Stored*>(work.array);
  auto* const values = static_cast<typename E::Accumulator*>(work.entries.values);
  for_each_entry(
      work.entries.indices, count_of(work.entries, work.capacity),
      [=](std::uint64_t, std::uint64_t index) { return array[index]; },
      [=](std::uint64_t i, std::uint64_t, Stored element) {
        values[i] = E::canonical(E::widen(element));
      });
}

}  // namespace sparcl::kernels::cuda
