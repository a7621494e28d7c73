#pragma once
// Block routines of exact top-k with error feedback, in the order of their launches. A threshold is
// guessed from a sample. One pass adds, writes the residual and keeps elements that reach the
// guess. Among those, the k-th largest key is found digit by digit (radix select), and the
// candidates are cut there (top_k_cut.cuh). If the guess was wrong, all elements replace the
// candidates; the host does not need to know.

#include "kernels/cuda/accumulate_tile.cuh"

namespace sparcl::kernels::cuda {

struct DigitShared {
  std::uint32_t counts[256];
};
static_assert(kThreads == 256, "a thread a digit");

// `own` keys have digit 255 - threadIdx.x. Returns whether the rest-th largest key is among them;
// if there are fewer keys in all, it is the lowest key. True for at most one thread. above: the
// number of keys with larger digits.
template <class Shared, class Count>
__device__ inline bool has_chosen_digit(Shared& shared, Count own, Count rest, Count* above) {
  Count total = 0;
  *above = sum_before(shared, own, &total);
  const Count so_far = *above + own;
  return own != 0 && *above < rest && (so_far >= rest || so_far == total);
}

__device__ inline std::uint64_t thread_of_grid() {
  return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x;
}

// The keys of kSamples elements, one of each kSamples-th part of the array.
template <TopKType kType>
__device__ inline void sample_keys(const TopKWork& work) {
  using E = Elements<kType>;
  for (std::uint64_t i = thread_of_grid(); i < kSamples; i += std::uint64_t{gridDim.x} * kThreads) {
    const std::uint64_t first = work.count / kSamples * i + work.count % kSamples * i / kSamples;
    const std::uint64_t next =
        work.count / kSamples * (i + 1) + work.count % kSamples * (i + 1) / kSamples;
    std::uint64_t place = i * 0x9e3779b97f4a7c15U;
    place = (place ^ (place >> 30)) * 0xbf58476d1ce4e5b9U;
    work.samples[i] =
        next == first
            ? 0
            : E::key(E::sum(work.values, work.residual, first + (place >> 32) % (next - first)));
  }
}

struct GuessShared : DigitShared {
  std::uint32_t warp_sums[kThreads / kWarp];
  std::uint32_t digit, rest;
};

// The key that `wanted` of the samples reach; one block. Samples stay in registers, because each
// digit needs a pass over them.
template <TopKType kType>
__device__ inline std::uint64_t guessed_key(GuessShared& shared, const TopKWork& work,
                                            std::uint32_t wanted) {
  using Key = std::conditional_t<sizeof(typename Elements<kType>::Accumulator) == 8, std::uint64_t,
                                 std::uint32_t>;
  constexpr int kKeyBits = 8 * sizeof(Key);
  constexpr unsigned kOwnSamples = kSamples / kThreads;
  Key samples[kOwnSamples], key = 0;
  SPARCL_UNROLL
  for (unsigned n = 0; n < kOwnSamples; ++n)
    samples[n] = static_cast<Key>(work.samples[n * kThreads + threadIdx.x]);
  std::uint32_t rest = wanted, above = 0;
  for (int shift = kKeyBits - 8; shift >= 0; shift -= 8) {
    shared.counts[threadIdx.x] = 0;
    __syncthreads();
    SPARCL_UNROLL
    for (unsigned n = 0; n < kOwnSamples; ++n) {
      if (shift + 8 >= kKeyBits || samples[n] >> (shift + 8) == key >> (shift + 8))
        atomicAdd(&shared.counts[samples[n] >> shift & 255], 1U);
    }
    __syncthreads();
    const unsigned digit = 255 - threadIdx.x;
    if (has_chosen_digit(shared, shared.counts[digit], rest, &above)) {
      shared.digit = digit;
      shared.rest = rest - above;
    }
    __syncthreads();
    key |= Key{shared.digit} << shift;
    rest = shared.rest;
  }
  return key;
}

template <TopKType kType>
__device__ inline void guess_threshold(GuessShared& shared, const TopKWork& work) {
  const double expected =
      static_cast<double>(kSamples) * static_cast<double>(work.k) / static_cast<double>(work.count);
  const double wanted = expected + 4 * sqrt(expected) +
                        8;  // four standard deviations: it falls short once in 30,000 calls
  std::uint64_t key = 0;
  if (wanted < static_cast<double>(kSamples) && work.count > kSamples)
    key = guessed_key<kType>(shared, work, static_cast<std::uint32_t>(wanted));
  if (threadIdx.x == 0) work.state->least = key == 0 ? 1 : key;
}

// One tile: residual = acc, and its candidates. The last tile stores their number.
template <TopKType kType>
__device__ inline void take_candidates(CompactionShared& shared, const TopKWork& work) {
  using E = Elements<kType>;
  const std::uint32_t tile = take_tile(shared, &work.state->next_tile[0]);
  const std::uint64_t first = std::uint64_t{tile} * kTileElements, left = work.count - first;
  accumulate_tile<kType>(shared, work.values, work.residual, first,
                         left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements,
                         work.state->least);
  __syncthreads();
  std::uint32_t total = 0;
  const std::uint32_t own_before = sum_before(shared, own_marks(shared), &total);
  const std::uint64_t before = sum_of_tiles_before(shared, work.states, tile, total);
  if (threadIdx.x == 0 && left <= kTileElements) work.state->candidates = before + total;
  for_each_mark(shared, before + own_before, [&](std::uint64_t number, unsigned element) {
    if (number >= work.capacity) return;
    work.candidate_indices[number] = first + element;
    work.candidate_keys[number] = E::key(E::left(work.values, work.residual, first + element));
  });
}

// One block: checks whether the candidates suffice, and clears the counts of digits.
__device__ inline void begin_select(const TopKWork& work) {
  TopKState& state = *work.state;
  state.digits[threadIdx.x] = 0;
  if (threadIdx.x != 0) return;
  state.is_whole =
      state.candidates > work.capacity || (state.candidates < work.k && state.least > 1) ? 1 : 0;
  state.key = 0;
  state.rest = work.k;
}

// The input of the selection: candidates, or all elements.
template <TopKType kType>
struct Looked {
  const TopKWork& work;
  bool is_whole;
  std::uint64_t count;

  __device__ explicit Looked(const TopKWork& of)
      : work(of),
        is_whole(of.state->is_whole != 0),
        count(is_whole ? of.count : of.state->candidates) {}
  __device__ std::uint64_t key_of_all(std::uint64_t i) const {
    return Elements<kType>::key(Elements<kType>::left(work.values, work.residual, i));
  }
  __device__ std::uint64_t key(std::uint64_t i) const {
    return is_whole ? key_of_all(i) : work.candidate_keys[i];
  }
  __device__ std::uint64_t index(std::uint64_t i) const {
    return is_whole ? i : work.candidate_indices[i];
  }
};

// Counts the digit at `shift` of the keys that have the digits found before. Zeros are never taken
// or counted.
template <TopKType kType>
__device__ inline void count_digits(DigitShared& shared, const TopKWork& work, int shift) {
  constexpr int kKeyBits = 8 * sizeof(typename Elements<kType>::Accumulator);
  const Looked<kType> looked(work);
  const std::uint64_t digits_so_far = work.state->key;
  shared.counts[threadIdx.x] = 0;
  __syncthreads();
  for (std::uint64_t i = thread_of_grid(); i < looked.count;
       i += std::uint64_t{gridDim.x} * kThreads) {
    const std::uint64_t key = looked.key(i);
    const bool has_them =
        shift + 8 >= kKeyBits || key >> (shift + 8) == digits_so_far >> (shift + 8);
    if (key != 0 && has_them)
      atomicAdd(&shared.counts[key >> shift & 255],
                1U);  // fewer than 2^32: a block has only a part of the array
  }
  __syncthreads();
  if (shared.counts[threadIdx.x] != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&work.state->digits[threadIdx.x]),
              (unsigned long long)shared.counts[threadIdx.x]);
  }
}

struct ChooseShared {
  std::uint64_t warp_sums[kThreads / kWarp];
};

// One block: the digit of the smallest key taken. If there are fewer than k elements in all, the
// lowest digit present.
__device__ inline void choose_digit(ChooseShared& shared, const TopKWork& work, int shift) {
  TopKState& state = *work.state;
  const unsigned digit = 255 - threadIdx.x;
  const std::uint64_t own = state.digits[digit], rest = state.rest;
  state.digits[digit] = 0;
  std::uint64_t above = 0;
  if (!has_chosen_digit(shared, own, rest, &above)) return;
  state.rest = rest - above;
  state.key |= std::uint64_t{digit} << shift;
}

}  // namespace sparcl::kernels::cuda
