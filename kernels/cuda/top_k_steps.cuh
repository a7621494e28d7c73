#pragma once
// Block routines of exact top-k with error feedback, in the order of their launches: a threshold is guessed from a sample; one pass
// adds, writes the residual and keeps what reaches the guess; the k-th largest key is found digit by digit among those (radix
// select), and they are cut there. Where the guess was wrong, all elements take the candidates' place: the host need not know.

#include "kernels/cuda/accumulator.cuh"
#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

struct DigitShared {
  std::uint32_t counts[256];
};

__device__ inline std::uint64_t thread_of_grid() { return std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; }

// The keys of kSamples elements, one of each kSamples-th part of the array.
template <TopKType kType>
__device__ inline void sample_keys(const TopKWork& work) {
  using E = Elements<kType>;
  for (std::uint64_t i = thread_of_grid(); i < kSamples; i += std::uint64_t{gridDim.x} * kThreads) {
    const std::uint64_t first = work.count / kSamples * i + work.count % kSamples * i / kSamples;
    const std::uint64_t next = work.count / kSamples * (i + 1) + work.count % kSamples * (i + 1) / kSamples;
    std::uint64_t place = i * 0x9e3779b97f4a7c15U;
    place = (place ^ (place >> 30)) * 0xbf58476d1ce4e5b9U;
    work.samples[i] = next == first ? 0 : E::key(E::sum(work.values, work.residual, first + (place >> 32) % (next - first)));
  }
}

// The key that `wanted` of the samples have or more, one block.
template <TopKType kType>
__device__ inline void guess_threshold(DigitShared& shared, const TopKWork& work) {
  constexpr int kKeyBits = 8 * sizeof(typename Elements<kType>::Accumulator);
  const double expected = static_cast<double>(kSamples) * static_cast<double>(work.k) / static_cast<double>(work.count);
  const double wanted = expected + 4 * sqrt(expected) + 8;  // four standard deviations: it falls short once in 30,000 calls
  std::uint64_t key = 0;
  if (wanted < static_cast<double>(kSamples) && work.count > kSamples) {
    std::uint64_t rest = static_cast<std::uint64_t>(wanted);
    for (int shift = kKeyBits - 8; shift >= 0; shift -= 8) {
      __syncthreads();
      shared.counts[threadIdx.x] = 0;
      __syncthreads();
      for (std::uint64_t i = threadIdx.x; i < kSamples; i += kThreads) {
        const std::uint64_t sample = work.samples[i];
        if (shift + 8 >= kKeyBits || sample >> (shift + 8) == key >> (shift + 8))
          atomicAdd(&shared.counts[sample >> shift & 255], 1U);
      }
      __syncthreads();
      unsigned digit = 255;
      while (digit > 0 && shared.counts[digit] < rest) rest -= shared.counts[digit--];
      key |= std::uint64_t{digit} << shift;
    }
  }
  if (threadIdx.x == 0) work.state->least = key == 0 ? 1 : key;
}

struct alignas(16) Vector4 {
  float x[4];
};

// A whole tile of float32, 16 bytes a load.
__device__ inline void accumulate_vectors(CompactionShared& shared, const float* values, float* residual, std::uint64_t least) {
  using E = Elements<TopKType::kFloat32>;
  const auto* const added = reinterpret_cast<const Vector4*>(values);
  auto* const sums = reinterpret_cast<Vector4*>(residual);
  for (unsigned i = threadIdx.x; i < kTileElements / 4; i += 4 * kThreads) {  // eight loads are under way before the first is used
    Vector4 a[4], b[4];
    for (unsigned j = 0; j < 4; ++j) {
      a[j] = added[i + j * kThreads];
      b[j] = sums[i + j * kThreads];
    }
    for (unsigned j = 0; j < 4; ++j) {
      std::uint32_t bits = 0;
      for (unsigned n = 0; n < 4; ++n) {
        b[j].x[n] = E::canonical(a[j].x[n] + b[j].x[n]);
        if (E::key(b[j].x[n]) >= least) bits |= 1U << n;
      }
      sums[i + j * kThreads] = b[j];
      set_marks<4>(shared, i + j * kThreads, bits);
    }
  }
}

// One tile: residual = acc, and its candidates. The last tile says how many there are.
template <TopKType kType>
__device__ inline void take_candidates(CompactionShared& shared, const TopKWork& work) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  const std::uint32_t tile = take_tile(shared, &work.state->next_tile[0]);
  const std::uint64_t first = std::uint64_t{tile} * kTileElements, left = work.count - first;
  const std::uint64_t least = work.state->least;
  const std::uint32_t count = left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements;
  const bool is_aligned =
      (reinterpret_cast<std::uintptr_t>(work.values) | reinterpret_cast<std::uintptr_t>(work.residual)) % 16 == 0;
  if (kType == TopKType::kFloat32 && work.residual != nullptr && is_aligned && count == kTileElements) {
    accumulate_vectors(shared, static_cast<const float*>(work.values) + first, static_cast<float*>(work.residual) + first, least);
  } else if (work.residual != nullptr) {
    mark_each(shared, count, [&](unsigned i) {
      const Accumulator acc = E::sum(work.values, work.residual, first + i);
      static_cast<Accumulator*>(work.residual)[first + i] = acc;
      return E::key(acc) >= least;
    });
  } else {
    mark_each(shared, count, [&](unsigned i) { return E::key(E::sum(work.values, work.residual, first + i)) >= least; });
  }
  __syncthreads();
  std::uint32_t total = 0;
  const std::uint32_t own_before = sum_before(shared, own_marks(shared), &total);
  const std::uint64_t before = sum_of_tiles_before(shared, work.states[0], tile, total);
  if (threadIdx.x == 0 && left <= kTileElements) work.state->candidates = before + total;
  for_each_mark(shared, before + own_before, [&](std::uint64_t number, unsigned element) {
    if (number >= work.capacity) return;
    work.candidate_indices[number] = first + element;
    work.candidate_keys[number] = E::key(E::left(work.values, work.residual, first + element));
  });
}

// One block: whether the candidates do, and a fresh count of digits.
__device__ inline void begin_select(const TopKWork& work) {
  TopKState& state = *work.state;
  state.digits[threadIdx.x] = 0;
  if (threadIdx.x != 0) return;
  state.is_whole = state.candidates > work.capacity || (state.candidates < work.k && state.least > 1) ? 1 : 0;
  state.key = 0;
  state.rest = work.k;
}

// Where the selection looks: at candidates, or at all elements.
template <TopKType kType>
struct Looked {
  const TopKWork& work;
  bool is_whole;
  std::uint64_t count;

  __device__ explicit Looked(const TopKWork& of)
      : work(of), is_whole(of.state->is_whole != 0), count(is_whole ? of.count : of.state->candidates) {}
  __device__ std::uint64_t key(std::uint64_t i) const {
    return is_whole ? Elements<kType>::key(Elements<kType>::left(work.values, work.residual, i)) : work.candidate_keys[i];
  }
  __device__ std::uint64_t index(std::uint64_t i) const { return is_whole ? i : work.candidate_indices[i]; }
};

// Counts the digit at `shift` of the keys that have the digits so far. Zeros are never taken, nor counted.
template <TopKType kType>
__device__ inline void count_digits(DigitShared& shared, const TopKWork& work, int shift) {
  constexpr int kKeyBits = 8 * sizeof(typename Elements<kType>::Accumulator);
  const Looked<kType> looked(work);
  const std::uint64_t digits_so_far = work.state->key;
  shared.counts[threadIdx.x] = 0;
  __syncthreads();
  for (std::uint64_t i = thread_of_grid(); i < looked.count; i += std::uint64_t{gridDim.x} * kThreads) {
    const std::uint64_t key = looked.key(i);
    const bool has_them = shift + 8 >= kKeyBits || key >> (shift + 8) == digits_so_far >> (shift + 8);
    if (key != 0 && has_them)
      atomicAdd(&shared.counts[key >> shift & 255], 1U);  // fewer than 2^32: a block has a part of the array
  }
  __syncthreads();
  if (shared.counts[threadIdx.x] != 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&work.state->digits[threadIdx.x]),
              (unsigned long long)shared.counts[threadIdx.x]);
  }
}

// One block: the digit of the least one taken; where there are fewer than k in all, the lowest that there is.
__device__ inline void choose_digit(const TopKWork& work, int shift) {
  TopKState& state = *work.state;
  if (threadIdx.x == 0) {
    std::uint64_t digit = 0, rest = state.rest, rest_there = rest;
    for (unsigned d = 256; d-- > 0;) {
      const std::uint64_t there = state.digits[d];
      if (there == 0) continue;
      digit = d;
      rest_there = rest;
      if (there >= rest) break;
      rest -= there;
    }
    state.rest = rest_there;
    state.key |= digit << shift;
  }
  __syncthreads();
  state.digits[threadIdx.x] = 0;
}

// One tile of what is looked at: those above the k-th key, and the first of those like it, in order. *work.found is 0 before.
template <TopKType kType>
__device__ inline void cut(CompactionShared& shared, const TopKWork& work) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  const Looked<kType> looked(work);
  const std::uint64_t least = work.state->key, rest = work.state->rest;
  const std::uint32_t tile = take_tile(shared, &work.state->next_tile[1]);
  const std::uint64_t first = std::uint64_t{tile} * kTileElements;
  if (first >= looked.count || least == 0) return;  // the whole block does
  const std::uint64_t left = looked.count - first;
  const std::uint32_t count = left < kTileElements ? static_cast<std::uint32_t>(left) : kTileElements;

  // Two numberings: those above, and those like the least one. The marks of the first are written over by the second's.
  mark_each(shared, count, [&](unsigned i) { return looked.key(first + i) > least; });
  __syncthreads();
  const std::uint32_t own_words[2] = {shared.marks[2 * threadIdx.x], shared.marks[2 * threadIdx.x + 1]};
  std::uint32_t above_total = 0, like_total = 0;
  const std::uint32_t above_own = sum_before(shared, own_marks(shared), &above_total);
  const std::uint64_t above = sum_of_tiles_before(shared, work.states[1], tile, above_total) + above_own;
  __syncthreads();
  mark_each(shared, count, [&](unsigned i) { return looked.key(first + i) == least; });
  __syncthreads();
  const std::uint32_t like_own = sum_before(shared, own_marks(shared), &like_total);
  const std::uint64_t like_before = sum_of_tiles_before(shared, work.states[2], tile, like_total);
  const std::uint64_t like = like_before + like_own;
  if (threadIdx.x == 0 && left <= kTileElements) {
    const std::uint64_t all_like = like_before + like_total;
    *work.found = above - above_own + above_total + (all_like < rest ? all_like : rest);
  }

  std::uint64_t above_number = above, like_number = like;
  for (unsigned w = 0; w < 2; ++w) {
    const std::uint32_t likes = shared.marks[2 * threadIdx.x + w];
    for (std::uint32_t bits = own_words[w] | likes; bits != 0; bits &= bits - 1) {
      const unsigned bit = static_cast<unsigned>(__ffs(static_cast<int>(bits)) - 1);
      const std::uint64_t number = above_number + (like_number < rest ? like_number : rest);
      if ((likes >> bit & 1) == 0)
        ++above_number;
      else if (like_number++ >= rest)
        continue;
      const std::uint64_t index = looked.index(first + (2 * threadIdx.x + w) * 32 + bit);
      const Accumulator acc = E::left(work.values, work.residual, index);
      work.indices[number] = index;
      if (work.taken != nullptr) static_cast<Accumulator*>(work.taken)[number] = acc;
      if (work.clear_sent && work.residual != nullptr) static_cast<Accumulator*>(work.residual)[index] = 0;
    }
  }
}

}  // namespace sparcl::kernels::cuda
