#pragma once
// The last step of top-k: from the examined elements, takes all above the k-th key and the first
// elements equal to it, in order.

#include "kernels/cuda/top_k_steps.cuh"

namespace sparcl::kernels::cuda {

struct CutShared : ScanShared {
  // For each 32 keys: the number above the k-th key, plus 2^16 times the number equal to it.
  // Afterwards: the sums over the earlier groups of the tile.
  std::uint32_t words[kCutTile / kWarp];
};
__device__ inline std::uint32_t& word_of(CutShared& shared, unsigned item) {
  return shared.words[item * (kThreads / kWarp) + threadIdx.x / kWarp];
}

// Marks of a thread's items, and of its neighbours' in the warp: bit l of item n is key n *
// kThreads of lane l.
struct CutMarks {
  std::uint32_t above[kCutItems], like[kCutItems];
};

// first: this thread's first key. All keys are loaded before one is compared; beyond the end the
// last key is loaded again.
template <TopKType kType>
__device__ inline CutMarks mark_keys(CutShared& shared, const Looked<kType>& looked,
                                     std::uint64_t first, std::uint64_t least) {
  std::uint64_t keys[kCutItems];
  const auto place = [&](unsigned n) {
    return first + n * kThreads < looked.count ? first + n * kThreads : looked.count - 1;
  };
  if (looked.is_whole) {
    SPARCL_UNROLL
    for (unsigned n = 0; n < kCutItems; ++n) keys[n] = looked.key_of_all(place(n));
  } else {
    SPARCL_UNROLL
    for (unsigned n = 0; n < kCutItems; ++n) keys[n] = looked.work.candidate_keys[place(n)];
  }
  CutMarks marks;
  SPARCL_UNROLL
  for (unsigned n = 0; n < kCutItems; ++n) {
    const bool is_there = first + n * kThreads < looked.count;
    marks.above[n] = __ballot_sync(kAllLanes, is_there && keys[n] > least);
    marks.like[n] = __ballot_sync(kAllLanes, is_there && keys[n] == least);
    const auto above = static_cast<std::uint32_t>(__popc(marks.above[n])),
               like = static_cast<std::uint32_t>(__popc(marks.like[n]));
    if (threadIdx.x % kWarp == 0) word_of(shared, n) = above | like << 16;
  }
  return marks;
}

// The number of the first element taken in a tile, and how many equal to the smallest key may be
// taken.
struct CutPlace {
  std::uint64_t number;
  std::uint32_t rest;
};

__device__ inline CutPlace place_tile(CutShared& shared, const TopKWork& work, std::uint32_t tile,
                                      bool is_last) {
  __syncthreads();  // all words are written
  std::uint32_t total = 0;
  std::uint32_t* const word = threadIdx.x < kCutTile / kWarp ? shared.words + threadIdx.x : nullptr;
  const std::uint32_t before = sum_before(shared, word != nullptr ? *word : 0, &total);
  if (word != nullptr) *word = before;
  TileState* const above_states = work.states + tile_count(work.count);
  const std::uint32_t above_here = total & 0xffff, like_here = total >> 16;
  const std::uint64_t above = sum_of_tiles_before(shared, above_states, tile, above_here);
  __syncthreads();  // all threads have read it
  const std::uint64_t like =
      sum_of_tiles_before(shared, above_states + cut_tiles(work.count), tile, like_here);
  const std::uint64_t all = work.state->rest, rest = like < all ? all - like : 0;
  const std::uint32_t rest_here = rest < like_here ? static_cast<std::uint32_t>(rest) : like_here;
  const std::uint64_t number = above + (like < all ? like : all);
  if (is_last && threadIdx.x == 0) *work.found = number + above_here + rest_here;
  return {number, rest_here};
}

// Writes the taken elements of kItems of a thread's, from item `begin` on.
template <unsigned kItems, TopKType kType>
__device__ inline void write_taken(CutShared& shared, const TopKWork& work,
                                   const Looked<kType>& looked, std::uint64_t first, unsigned begin,
                                   const CutMarks& marks, const CutPlace& place) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  constexpr std::uint32_t kNotTaken = ~std::uint32_t{0};
  const unsigned lane = threadIdx.x % kWarp;
  std::uint32_t numbers[kItems];
  std::uint64_t indices[kItems];
  Accumulator taken[kItems];
  SPARCL_UNROLL
  for (unsigned n = 0; n < kItems; ++n) {
    const std::uint32_t word = word_of(shared, begin + n), below = (1U << lane) - 1;
    const std::uint32_t like =
        (word >> 16) + static_cast<std::uint32_t>(__popc(marks.like[begin + n] & below));
    const std::uint32_t above =
        (word & 0xffff) + static_cast<std::uint32_t>(__popc(marks.above[begin + n] & below));
    const bool is_taken = (marks.above[begin + n] >> lane & 1) != 0 ||
                          ((marks.like[begin + n] >> lane & 1) != 0 && like < place.rest);
    numbers[n] = is_taken ? above + (like < place.rest ? like : place.rest) : kNotTaken;
    if (is_taken) indices[n] = looked.index(first + (begin + n) * kThreads);
  }
  SPARCL_UNROLL
  for (unsigned n = 0; n < kItems; ++n) {
    if (numbers[n] != kNotTaken) taken[n] = E::left(work.values, work.residual, indices[n]);
  }
  SPARCL_UNROLL
  for (unsigned n = 0; n < kItems; ++n) {
    if (numbers[n] == kNotTaken) continue;
    work.indices[place.number + numbers[n]] = indices[n];
    if (work.taken != nullptr)
      static_cast<Accumulator*>(work.taken)[place.number + numbers[n]] = taken[n];
    if (work.clear_sent && work.residual != nullptr)
      static_cast<Accumulator*>(work.residual)[indices[n]] = 0;
  }
}

// Tile after tile, until none is left. *work.found is 0 before.
template <TopKType kType>
__device__ inline void cut(CutShared& shared, const TopKWork& work) {
  const Looked<kType> looked(work);
  const std::uint64_t least = work.state->key;
  if (least == 0) return;
  for (;;) {
    const std::uint32_t tile = take_tile(shared, &work.state->next_tile[1]);
    const std::uint64_t begin = std::uint64_t{tile} * kCutTile, first = begin + threadIdx.x;
    if (begin >= looked.count) return;  // for the whole block
    const CutMarks marks = mark_keys(shared, looked, first, least);
    const CutPlace place = place_tile(shared, work, tile, looked.count - begin <= kCutTile);
    constexpr unsigned kTogether = kCutItems / 2;
    write_taken<kTogether>(shared, work, looked, first, 0, marks, place);
    write_taken<kTogether>(shared, work, looked, first, kTogether, marks, place);
  }
}

}  // namespace sparcl::kernels::cuda
