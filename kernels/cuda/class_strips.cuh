#pragma once
// The elements of a block, numbered within their classes: counts for each strip of 64 elements, and
// sums over the strips. They give an element's rank from its position, and its position from its
// rank, with a look at one strip.

#include "kernels/classes.hpp"
#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

constexpr unsigned kStripElements = 64, kStripVectors = kStripElements / 8,
                   kStrips = kBlockElements / kStripElements, kStripsOfThread = kStrips / kThreads;
constexpr unsigned kStripLoads = 4;  // vector loads of a thread in flight at once. Heuristic

// A byte for each class: class c's is byte c / 2 of half[c % 2].
struct StripCounts {
  std::uint64_t half[2];

  __device__ std::uint32_t of(unsigned c) const {
    return static_cast<std::uint32_t>(half[c % 2] >> (8 * (c / 2))) & 0xff;
  }
};

struct ClassStrips {
  std::uint8_t class_of_key[256];
  StripCounts counts[kStrips];
  std::uint16_t before[kThreads][kMaxClasses];  // elements of the class in the strips before those
                                                // of a thread
  std::uint32_t total[kMaxClasses];
};

// A block's elements of 16 bits.
struct StripElements {
  const std::uint16_t* at;
  std::uint32_t count;
  bool is_aligned;

  // Eight elements from 8 * number on, two in a word; elements after the end are undefined.
  __device__ Vector16 vector(std::uint32_t number) const {
    const std::uint32_t first = 8 * number;
    if (is_aligned && first + 8 <= count) return *reinterpret_cast<const Vector16*>(at + first);
    Vector16 made{};
    SPARCL_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      if (first + i < count)
        made.words[i / 2] |= static_cast<std::uint32_t>(at[first + i]) << (16 * (i % 2));
    }
    return made;
  }
};

__device__ inline unsigned class_in(const ClassStrips& strips, std::uint32_t value) {
  return strips.class_of_key[value >> 7 & 0xff];
}

// The number of elements of eight in each class, four bits a class. valid: the number of elements,
// from the first, that count.
__device__ inline std::uint64_t count_classes(const ClassStrips& strips, const Vector16& vector,
                                              std::uint32_t valid) {
  std::uint64_t counts = 0;
  SPARCL_UNROLL
  for (unsigned i = 0; i < 8; ++i) {
    const std::uint32_t value = vector.words[i / 2] >> (16 * (i % 2));
    if (i < valid) counts += std::uint64_t{1} << (4 * class_in(strips, value));
  }
  return counts;
}

// Stores the counts strip by strip: eight neighbouring lanes share a strip.
__device__ inline void put_counts(ClassStrips& strips, std::uint32_t number, std::uint64_t counts) {
  constexpr std::uint64_t kEven = 0x0f0f0f0f0f0f0f0f;
  std::uint64_t even = counts & kEven, odd = counts >> 4 & kEven;
  for (unsigned step = kStripVectors / 2; step > 0; step /= 2) {
    even += __shfl_down_sync(kAllLanes, even, step);
    odd += __shfl_down_sync(kAllLanes, odd, step);
  }
  if (number % kStripVectors == 0) strips.counts[number / kStripVectors] = {{even, odd}};
}

__device__ inline void count_strips(ClassStrips& strips, const StripElements& elements) {
  constexpr std::uint32_t kVectors = kBlockElements / 8;
  if (!elements.is_aligned || elements.count < kBlockElements) {
    for (std::uint32_t number = threadIdx.x; number < kVectors; number += kThreads) {
      const std::uint32_t valid = 8 * number < elements.count ? elements.count - 8 * number : 0;
      put_counts(strips, number, count_classes(strips, elements.vector(number), valid));
    }
    return;
  }
  const auto* const vectors = reinterpret_cast<const Vector16*>(elements.at);
  for (std::uint32_t first = threadIdx.x; first < kVectors; first += kStripLoads * kThreads) {
    Vector16 loaded[kStripLoads];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kStripLoads; ++n) loaded[n] = vectors[first + n * kThreads];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kStripLoads; ++n)
      put_counts(strips, first + n * kThreads, count_classes(strips, loaded[n], 8));
  }
}

// Sums three classes at a time, 21 bits each, enough for a block's elements.
template <class Shared>
__device__ inline void sum_strips(ClassStrips& strips, Shared& scan) {
  constexpr unsigned kAtOnce = 3, kBits = 21;
  for (unsigned first = 0; first < kMaxClasses; first += kAtOnce) {
    std::uint64_t own = 0, total = 0;
    for (unsigned strip = kStripsOfThread * threadIdx.x;
         strip < kStripsOfThread * (threadIdx.x + 1); ++strip) {
      for (unsigned n = 0; n < kAtOnce; ++n)
        own += std::uint64_t{strips.counts[strip].of(first + n)} << (kBits * n);
    }
    const std::uint64_t before = sum_before(scan, own, &total);
    for (unsigned n = 0; n < kAtOnce; ++n) {
      strips.before[threadIdx.x][first + n] = static_cast<std::uint16_t>(before >> (kBits * n));
      if (threadIdx.x == 0)
        strips.total[first + n] =
            static_cast<std::uint32_t>(total >> (kBits * n)) & ((1U << kBits) - 1);
    }
  }
}

// A barrier comes before it, because cut is read. scan.warp_sums: 64 bits a warp.
template <class Shared>
__device__ inline void number_elements(ClassStrips& strips, Shared& scan, const ClassCut& cut,
                                       const StripElements& elements) {
  unsigned c = 0;
  while (c + 1 < cut.count && threadIdx.x < cut.lowest[c]) ++c;
  strips.class_of_key[threadIdx.x] = static_cast<std::uint8_t>(c);
  __syncthreads();
  count_strips(strips, elements);
  __syncthreads();
  sum_strips(strips, scan);
  __syncthreads();
}
static_assert(kThreads == 256, "a thread a key");

// The position of the element with this rank in its class within the block. The element existed
// when the elements were numbered. If another program wrote to the array since, the result may be
// any position of the block.
__device__ inline std::uint32_t place_of_rank(const ClassStrips& strips,
                                              const StripElements& elements, unsigned c,
                                              std::uint32_t rank) {
  unsigned thread = 0;  // the last thread with at most that many before its strips
  for (unsigned step = kThreads / 2; step > 0; step /= 2)
    thread += strips.before[thread + step][c] <= rank ? step : 0;
  rank -= strips.before[thread][c];
  unsigned strip = kStripsOfThread * thread;
  for (; strip + 1 < kStrips && rank >= strips.counts[strip].of(c); ++strip)
    rank -= strips.counts[strip].of(c);
  std::uint32_t place = kStripElements * strip;
  for (unsigned n = 0; n < kStripVectors; ++n) {
    const Vector16 vector = elements.vector(kStripVectors * strip + n);
    SPARCL_UNROLL
    for (unsigned i = 0; i < 8; ++i, ++place) {
      const bool is_in_class =
          place < elements.count && class_in(strips, vector.words[i / 2] >> (16 * (i % 2))) == c;
      if (is_in_class && rank-- == 0) return place;
    }
  }
  return kStripElements * strip;
}

// The number of elements of its class before it in the block.
__device__ inline std::uint32_t rank_of_place(const ClassStrips& strips,
                                              const StripElements& elements, unsigned c,
                                              std::uint32_t place) {
  const unsigned strip = place / kStripElements, thread = strip / kStripsOfThread;
  std::uint32_t rank = strips.before[thread][c];
  for (unsigned s = kStripsOfThread * thread; s < strip; ++s) rank += strips.counts[s].of(c);
  std::uint32_t at = kStripElements * strip;
  for (unsigned n = 0; at < place; ++n) {
    const Vector16 vector = elements.vector(kStripVectors * strip + n);
    SPARCL_UNROLL
    for (unsigned i = 0; i < 8; ++i, ++at)
      rank += at < place && class_in(strips, vector.words[i / 2] >> (16 * (i % 2))) == c ? 1 : 0;
  }
  return rank;
}

}  // namespace sparcl::kernels::cuda
