#pragma once
// A string of bits that a block of threads writes together, part by part. The next bits are
// collected in a window of shared memory, and whole words of the window are written to memory
// coalesced.

#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

// The most bits of one part between two calls of need(). All planes, or all unary parts, of a
// block's list fit.
constexpr std::uint32_t kMaxPartBits = 65'536;
constexpr unsigned kWindowWords =
    kMaxPartBits / 32 + 8;  // plus the rest of the part before, and the zeros of an alignment

__device__ inline unsigned floor_log2(std::uint64_t value) {
  return 63 - static_cast<unsigned>(__clzll(static_cast<long long>(value)));
}
__device__ inline std::uint64_t lowest(std::uint64_t bits, unsigned count) {
  return count >= 64 ? bits : bits & ((std::uint64_t{1} << count) - 1);
}
__device__ inline std::uint32_t lanes_below(unsigned lane) { return (1U << lane) - 1; }

// All threads hold a sink with the same numbers. Parts are put between need() and the update of
// `at`, in any order in time.
struct BitSink {
  std::uint32_t* window;  // of kWindowWords, in shared memory
  std::uint32_t* out;
  std::uint32_t at = 0;     // the next bit
  std::uint32_t first = 0;  // the word of `out` at the start of the window

  // Call this first.
  __device__ void clear() {
    for (unsigned i = threadIdx.x; i < kWindowWords; i += kThreads) window[i] = 0;
    __syncthreads();
  }

  // Makes room for `bits` more, at most kMaxPartBits.
  __device__ void need(std::uint32_t bits) {
    if (at - 32 * first + bits > 32 * (kWindowWords - 6)) flush();
  }

  // From any thread: puts `count` bits, at most 64; the other bits are zero. need() has made room
  // for `place`.
  __device__ void put(std::uint32_t place, std::uint64_t bits, unsigned count) {
    std::uint32_t* const word = window + (place / 32 - first);
    const unsigned shift = place % 32;
    const std::uint64_t rest = bits >> (32 - shift);
    atomicOr(word, static_cast<std::uint32_t>(bits) << shift);
    if (shift + count > 32) atomicOr(word + 1, static_cast<std::uint32_t>(rest));
    if (shift + count > 64) atomicOr(word + 2, static_cast<std::uint32_t>(rest >> 32));
  }
  __device__ void put_one(std::uint32_t place) {
    atomicOr(window + (place / 32 - first), 1U << (place % 32));
  }

  // From all threads: bit i of the next `count` is of(i). At most kMaxPartBits.
  template <class BitOf>
  __device__ void append_plane(std::uint32_t count, BitOf of) {
    need(count);
    const unsigned lane = threadIdx.x % kWarp;
    for (std::uint32_t group = threadIdx.x / kWarp * kWarp; group < count; group += kThreads) {
      const std::uint32_t bits = __ballot_sync(kAllLanes, group + lane < count && of(group + lane));
      if (lane == 0) put(at + group, bits, count - group < kWarp ? count - group : kWarp);
    }
    at += count;
  }

  // `planes` of them, at most 32, together at most kMaxPartBits. Bit i of plane j is bit j of
  // of(i), which is called once.
  template <class ValueOf>
  __device__ void append_planes(unsigned planes, std::uint32_t count, ValueOf of) {
    if (planes == 0) return;
    need(planes * count);
    const unsigned lane = threadIdx.x % kWarp;
    for (std::uint32_t group = threadIdx.x / kWarp * kWarp; group < count; group += kThreads) {
      const std::uint32_t value = group + lane < count ? of(group + lane) : 0;
      std::uint32_t own = 0;
      for (unsigned j = 0; j < planes; ++j) {
        const std::uint32_t bits = __ballot_sync(kAllLanes, (value >> j & 1) != 0);
        if (lane == j) own = bits;
      }
      if (lane < planes)
        put(at + lane * count + group, own, count - group < kWarp ? count - group : kWarp);
    }
    at += planes * count;
  }

  // The head of a content: one thread writes the bits.
  __device__ void append_one(std::uint64_t bits, unsigned count) {
    need(count);
    if (threadIdx.x == 0) put(at, bits, count);
    at += count;
  }

  __device__ void flush() {
    __syncthreads();
    const std::uint32_t whole = at / 32 - first;
    for (std::uint32_t i = threadIdx.x; i < whole; i += kThreads) out[first + i] = window[i];
    const std::uint32_t rest = window[whole];
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i <= whole; i += kThreads) window[i] = i == 0 ? rest : 0;
    __syncthreads();
    first += whole;
  }

  // Writes the remaining bits, and zeros up to the alignment of contents.
  __device__ void finish() {
    __syncthreads();
    const std::uint32_t end = static_cast<std::uint32_t>(aligned_content((at + 7) / 8) / 4);
    for (std::uint32_t i = threadIdx.x; first + i < end; i += kThreads) out[first + i] = window[i];
  }
};

// How the warps of a block share a number of items in order: each has neighbouring groups of 32.
struct WarpShare {
  std::uint32_t begin, end;  // multiples of 32, except for the last end
};
__device__ inline WarpShare share_of_warp(std::uint32_t count) {
  constexpr std::uint32_t kWarps = kThreads / kWarp;
  const std::uint32_t groups = (count + kWarp - 1) / kWarp,
                      each = (groups + kWarps - 1) / kWarps * kWarp;
  const std::uint32_t begin = threadIdx.x / kWarp * each, end = begin + each;
  return {begin < count ? begin : count, end < count ? end : count};
}

// The sum over the lanes before this one, and over all.
__device__ inline std::uint32_t sum_of_lanes_before(std::uint32_t own, std::uint32_t* total) {
  std::uint32_t sum = own;
  for (unsigned step = 1; step < kWarp; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(kAllLanes, sum, step);
    if (threadIdx.x % kWarp >= step) sum += other;
  }
  *total = __shfl_sync(kAllLanes, sum, kWarp - 1);
  return sum - own;
}

// Appends codes of length_of(i) bits, one after the other; put(i, place) writes code i. Handles at
// most `chunk` codes at a time; their bits must fit into a part.
template <class LengthOf, class Put>
__device__ inline void append_codes(CompactionShared& shared, BitSink& sink, std::uint32_t count,
                                    std::uint32_t chunk, LengthOf length_of, Put put) {
  const unsigned lane = threadIdx.x % kWarp;
  for (std::uint32_t first = 0; first < count; first += chunk) {
    const WarpShare share = share_of_warp(count - first < chunk ? count - first : chunk);
    std::uint32_t own = 0, total = 0;
    for (std::uint32_t i = share.begin + lane; i < share.end; i += kWarp)
      own += length_of(first + i);
    const std::uint32_t before = __shfl_sync(kAllLanes, sum_before(shared, own, &total),
                                             0);  // lane 0: the sum of all warps before
    sink.need(total);
    std::uint32_t place = sink.at + before;
    for (std::uint32_t group = share.begin; group < share.end; group += kWarp) {
      const std::uint32_t i = group + lane;
      std::uint32_t of_group = 0;
      const std::uint32_t in_group =
          sum_of_lanes_before(i < share.end ? length_of(first + i) : 0, &of_group);
      if (i < share.end) put(first + i, place + in_group);
      place += of_group;
    }
    sink.at += total;
  }
}

}  // namespace sparcl::kernels::cuda
