#pragma once
// Block routines that merge two ascending lists of entries, by the merge path (Odeh, Green, Mwassi,
// Shmueli & Birk, "Merge path - parallel merging made simple", IPDPSW 2012). A search in each list
// cuts the path after every kMergeTile entries of both. A block merges the entries between two cuts
// in shared memory, each thread a stretch. An index in both lists is written once, so the offset of
// a tile's output comes from the tiles before it (ordered_compaction.cuh). Apart from the searches,
// everything is read once.

#include "kernels/cuda/accumulator.cuh"
#include "kernels/cuda/entry_block.cuh"
#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

struct NoValue {};  // only indices are merged

template <class Value>
struct MergeShared : ScanShared {
  // Both lists' entries, a's first; then the tile's output. One entry more than a tile: the second
  // of a pair (split_at()).
  std::uint64_t indices[kMergeTile + 1];
  Value values[std::is_same_v<Value, NoValue> ? 1 : kMergeTile + 1];
};

// The number of a's entries among the first `behind` of both lists; on equal indices a's come
// first.
template <class Count>
__device__ inline Count path_at(const std::uint64_t* a, Count count_a, const std::uint64_t* b,
                                Count count_b, Count behind) {
  Count low = behind > count_b ? behind - count_b : 0, high = behind < count_a ? behind : count_a;
  while (low < high) {
    const Count middle = low + (high - low) / 2;
    if (a[middle] <= b[behind - 1 - middle])
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The start of tile `tile`. No cut separates a pair of equal indices.
__device__ inline MergeSplit split_at(const MergeWork& work, std::uint64_t tile) {
  const std::uint64_t count_a = count_of(work.a, work.capacity_a),
                      count_b = count_of(work.b, work.capacity_b);
  const std::uint64_t wanted = tile * kMergeTile,
                      behind = wanted < count_a + count_b ? wanted : count_a + count_b;
  MergeSplit split{path_at(work.a.indices, count_a, work.b.indices, count_b, behind), 0};
  split.b = behind - split.a;
  if (split.a > 0 && split.b < count_b && work.a.indices[split.a - 1] == work.b.indices[split.b])
    ++split.b;
  return split;
}

// Makes all cuts, and initialises the workspace of the merge.
__device__ inline void split_merge(const MergeWork& work) {
  const std::uint64_t tile = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::uint64_t tiles = merge_tiles(work.capacity_a + work.capacity_b);
  if (tile > tiles) return;
  work.splits[tile] = split_at(work, tile);
  if (tile < tiles) work.states[tile] = 0;
  if (tile == 0) *work.next_tile = 0;
}

// Loads both stretches of one array of the entries and stores them in shared memory.
template <class T>
struct Stretches {
  const T* a;
  const T* b;
  unsigned count_a, count;  // of a, of both
  T loaded[kMergeItems];
  T last;  // if there is one more than a tile

  __device__ T at(unsigned place) const { return place < count_a ? a[place] : b[place - count_a]; }
  __device__ void load() {
    for (unsigned n = 0; n < kMergeItems; ++n) {
      const unsigned place = n * kThreads + threadIdx.x;
      if (place < count) loaded[n] = at(place);
    }
    if (threadIdx.x == 0 && count > kMergeTile) last = at(kMergeTile);
  }
  __device__ void store(T* into) const {
    for (unsigned n = 0; n < kMergeItems; ++n) {
      const unsigned place = n * kThreads + threadIdx.x;
      if (place < count) into[place] = loaded[n];
    }
    if (threadIdx.x == 0 && count > kMergeTile) into[kMergeTile] = last;
  }
};

// All loads are issued before the first store.
template <class Value>
__device__ inline void load_lists(MergeShared<Value>& shared, const MergeWork& work,
                                  const MergeSplit& begin, unsigned count_a, unsigned count) {
  Stretches<std::uint64_t> indices{
      work.a.indices + begin.a, work.b.indices + begin.b, count_a, count, {}, 0};
  indices.load();
  if constexpr (!std::is_same_v<Value, NoValue>) {
    const auto* const a = static_cast<const Value*>(work.a.values) + begin.a;
    const auto* const b = static_cast<const Value*>(work.b.values) + begin.b;
    Stretches<Value> values{a, b, count_a, count, {}, 0};
    values.load();
    values.store(shared.values);
  }
  indices.store(shared.indices);
  __syncthreads();
}

// The output of a thread's stretch: bit n of `kept` says whether entry n is in the output.
template <class Value>
struct Merged {
  std::uint64_t indices[kMergeItems];
  Value values[kMergeItems];
  std::uint32_t kept = 0;
};

template <class Value>
__device__ inline void merge_stretch(const MergeShared<Value>& shared, unsigned count_a,
                                     unsigned count, Merged<Value>& merged) {
  constexpr bool kHasValues = !std::is_same_v<Value, NoValue>;
  const std::uint64_t* const a = shared.indices;
  const std::uint64_t* const b = a + count_a;
  const unsigned count_b = count - count_a, first = kMergeItems * threadIdx.x;
  if (first >= count) return;
  unsigned i = path_at(a, count_a, b, count_b, first), j = first - i;
  for (unsigned n = 0; n < kMergeItems; ++n) {
    if (first + n >= count) continue;
    const bool is_a = j >= count_b || (i < count_a && a[i] <= b[j]);
    const std::uint64_t index = is_a ? a[i] : b[j];
    merged.indices[n] = index;
    if constexpr (kHasValues) {
      Value value = shared.values[is_a ? i : count_a + j];
      if (is_a && j < count_b && b[j] == index)
        value = static_cast<Value>(value + shared.values[count_a + j]);
      merged.values[n] = canonical(value);
    }
    if (is_a || i == 0 || a[i - 1] != index) merged.kept |= 1U << n;
    i += is_a ? 1 : 0;
    j += is_a ? 0 : 1;
  }
}

template <class Value>
__device__ inline void merge_tile(MergeShared<Value>& shared, const MergeWork& work) {
  constexpr bool kHasValues = !std::is_same_v<Value, NoValue>;
  const std::uint32_t tile = take_tile(shared, work.next_tile);
  const MergeSplit begin = work.splits[tile], end = work.splits[tile + 1];
  const std::uint64_t all = count_of(work.a, work.capacity_a) + count_of(work.b, work.capacity_b);
  if (tile >= merge_tiles(all)) return;  // for the whole block
  const auto count_a = static_cast<unsigned>(end.a - begin.a),
             count = count_a + static_cast<unsigned>(end.b - begin.b);
  load_lists(shared, work, begin, count_a, count);
  Merged<Value> merged;
  merge_stretch(shared, count_a, count, merged);

  std::uint32_t total = 0;
  std::uint32_t place = sum_before(shared, static_cast<std::uint32_t>(__popc(merged.kept)),
                                   &total);  // all threads have read the lists
  for (unsigned n = 0; n < kMergeItems; ++n) {
    if ((merged.kept >> n & 1) == 0) continue;
    shared.indices[place] = merged.indices[n];
    if constexpr (kHasValues) shared.values[place] = merged.values[n];
    ++place;
  }
  const std::uint64_t before = sum_of_tiles_before(shared, work.states, tile, total);
  for (unsigned at = threadIdx.x; at < total; at += kThreads) {
    work.out.indices[before + at] = shared.indices[at];
    if constexpr (kHasValues) static_cast<Value*>(work.out.values)[before + at] = shared.values[at];
  }
  if (threadIdx.x == 0 && tile + 1 == merge_tiles(all)) *work.out.count = before + total;
}

}  // namespace sparcl::kernels::cuda
