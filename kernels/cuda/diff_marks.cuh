#pragma once
// Marks the elements of a tile that differ and are wanted. Both arrays are read once, 16 bytes a
// load.

#include <type_traits>

#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

// Bit i: whether element i of the two vectors differs.
template <class Word>
__device__ inline std::uint32_t differing(const Vector16& a, const Vector16& b) {
  constexpr unsigned kWidth = 8 * sizeof(Word);
  std::uint32_t bits = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t x = a.words[i] ^ b.words[i];
    if constexpr (kWidth == 64) {
      if (x != 0) bits |= 1U << (i / 2);
    } else {
      for (unsigned part = 0; part < 32 / kWidth; ++part) {
        const std::uint32_t mask = static_cast<std::uint32_t>((std::uint64_t{1} << kWidth) - 1)
                                   << (part * kWidth % 32);
        if ((x & mask) != 0) bits |= 1U << (i * (32 / kWidth) + part);
      }
    }
  }
  return bits;
}

// A predicate of old and new value: all changes are wanted.
struct IsAny {
  template <class Word>
  __device__ bool operator()(Word, Word) const {
    return true;
  }
};

// A vector whose elements are taken one by one from its low end. An index would move the vector out
// of the registers.
struct Queue16 {
  std::uint64_t low, high;

  __device__ explicit Queue16(const Vector16& from)
      : low(std::uint64_t{from.words[1]} << 32 | from.words[0]),
        high(std::uint64_t{from.words[3]} << 32 | from.words[2]) {}
  template <class Word>
  __device__ Word next() {
    const auto word = static_cast<Word>(low);
    if constexpr (sizeof(Word) == 8) {
      low = high;
    } else {
      low = low >> (8 * sizeof(Word)) | high << (64 - 8 * sizeof(Word));
      high >>= 8 * sizeof(Word);
    }
    return word;
  }
};

// From the bits of differing elements, keeps those whose changes are wanted.
template <class Word, class IsWanted>
__device__ inline std::uint32_t wanted_of(std::uint32_t bits, const Vector16& a, const Vector16& b,
                                          IsWanted is_wanted) {
  if constexpr (!std::is_same_v<IsWanted, IsAny>) {
    if (bits == 0) return 0;
    Queue16 old_ones(a), new_ones(b);
    for (unsigned i = 0; i < 16 / sizeof(Word); ++i) {
      const Word old_value = old_ones.next<Word>(), new_value = new_ones.next<Word>();
      if ((bits >> i & 1) != 0 && !is_wanted(old_value, new_value)) bits &= ~(1U << i);
    }
  }
  return bits;
}

// Element by element: for unaligned arrays, and for the last tile, which may have fewer elements.
// Eight loads are in flight at once, because none is skipped: beyond `count` they load the last
// element.
template <class Word, class IsWanted>
__device__ inline void mark_elements(CompactionShared& shared, const Word* base, const Word* target,
                                     std::uint32_t count, IsWanted is_wanted) {
  constexpr unsigned kLoads = 4, kWarps = kThreads / kWarp;
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned w = threadIdx.x / kWarp; w < kMarkWords; w += kLoads * kWarps) {
    Word old_ones[kLoads], new_ones[kLoads];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kLoads; ++n) {
      const unsigned element = (w + n * kWarps) * kWarp + lane,
                     place = element < count ? element : count - 1;
      old_ones[n] = base[place];
      new_ones[n] = target[place];
    }
    SPARCL_UNROLL
    for (unsigned n = 0; n < kLoads; ++n) {
      const bool is_there = (w + n * kWarps) * kWarp + lane < count;
      const std::uint32_t bits = __ballot_sync(
          kAllLanes, is_there && old_ones[n] != new_ones[n] && is_wanted(old_ones[n], new_ones[n]));
      if (lane == 0) shared.marks[w + n * kWarps] = bits;
    }
  }
}

template <class Word, class IsWanted>
__device__ inline void mark_differing(CompactionShared& shared, const Word* base,
                                      const Word* target, std::uint32_t count, IsWanted is_wanted) {
  constexpr unsigned kBits = 16 / sizeof(Word);
  if (count < kTileElements || !is_aligned16(base) || !is_aligned16(target)) {
    return mark_elements(shared, base, target, count, is_wanted);
  }
  const auto* const a = reinterpret_cast<const Vector16*>(base);
  const auto* const b = reinterpret_cast<const Vector16*>(target);
  for (unsigned i = threadIdx.x; i < kTileElements / kBits;
       i += 4 * kThreads) {  // eight loads are in flight at once
    Vector16 old_ones[4], new_ones[4];
    SPARCL_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      old_ones[j] = a[i + j * kThreads];
      new_ones[j] = b[i + j * kThreads];
    }
    SPARCL_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      const std::uint32_t bits = differing<Word>(old_ones[j], new_ones[j]);
      set_marks<kBits>(shared, i + j * kThreads,
                       wanted_of<Word>(bits, old_ones[j], new_ones[j], is_wanted));
    }
  }
}

}  // namespace sparcl::kernels::cuda
