#pragma once
// Block routine of the state hash: a block of threads handles a block of the state. Each thread has
// the same words of every stripe, so its keys stay in registers. An array is read once, 16 bytes a
// load, and nothing else is read.

#include "kernels/cuda/change_list.cuh"
#include "kernels/cuda/hash_work.hpp"
#include "kernels/word_hash.hpp"

namespace sparcl::kernels::cuda {

constexpr unsigned kHashWords = 4;  // words of a stripe for each thread
constexpr unsigned kHashLoads = 4;  // stripes whose loads are in flight at once; heuristic
static_assert(sizeof(Vector16) == 4 * kHashWords && kStripeWords == kThreads * kHashWords);

struct HashShared {
  StripeKeys stripe_keys;
  BlockSumsShared sums;
};

// The array's elements in a block of the state, by their position in the block.
template <class Word>
struct HashedPart {
  const Word* elements;  // the element of position 0, even if the array does not contain it
  std::uint32_t begin, end;
  bool is_aligned;

  // Positions outside the array count as zeros.
  __device__ Vector16 vector(std::uint32_t number) const {
    constexpr std::uint32_t kElements = sizeof(Vector16) / sizeof(Word);
    const std::uint32_t first = number * kElements;
    if (is_aligned && first >= begin && first + kElements <= end)
      return *reinterpret_cast<const Vector16*>(elements + first);
    Vector16 made{};
    for (std::uint32_t i = 0; i < kElements; ++i) {
      if (first + i < begin || first + i >= end) continue;
      const std::uint64_t element = elements[first + i];
      if constexpr (sizeof(Word) == 8) {
        made.words[2 * i] = static_cast<std::uint32_t>(element);
        made.words[2 * i + 1] = static_cast<std::uint32_t>(element >> 32);
      } else {
        constexpr std::uint32_t kInWord = 4 / sizeof(Word);
        made.words[i / kInWord] |= static_cast<std::uint32_t>(element)
                                   << (8 * sizeof(Word) * (i % kInWord));
      }
    }
    return made;
  }
};

template <class Word>
__device__ inline HashedPart<Word> part_of(const HashWork& work) {
  const std::uint64_t before = std::uint64_t{blockIdx.x} * kBlockElements,
                      end = work.place.offset + work.count - before;
  HashedPart<Word> part;
  part.elements = static_cast<const Word*>(work.array) + before - work.place.offset;
  part.begin = blockIdx.x == 0 ? work.place.offset : 0;
  part.end = static_cast<std::uint32_t>(end < kBlockElements ? end : kBlockElements);
  part.is_aligned = is_aligned16(part.elements);
  return part;
}

struct WordKeys {
  std::uint64_t low[kHashWords], high[kHashWords];
};

__device__ inline void add_vector(Sums& sums, const WordKeys& keys,
                                  const std::uint64_t (&stripe_key)[2], const Vector16& vector) {
  std::uint64_t low = 0, high = 0;
  for (unsigned n = 0; n < kHashWords; ++n) {
    low += vector.words[n] * keys.low[n];
    high += vector.words[n] * keys.high[n];
  }
  sums.low += low * stripe_key[0];
  sums.high += high * stripe_key[1];
}

__device__ inline void add_to(DeviceHash* to, unsigned half, std::uint64_t sum) {
  std::uint64_t* const word = half == 0 ? &to->low : &to->high;
  atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(sum));
}

template <class Word>
__device__ inline void hash_block(HashShared& shared, const HashWork& work) {
  shared.stripe_keys.make();
  WordKeys keys;
  for (unsigned n = 0; n < kHashWords; ++n) {
    keys.low[n] = hash_key(1 + 2 * (kHashWords * threadIdx.x + n));
    keys.high[n] = hash_key(2 + 2 * (kHashWords * threadIdx.x + n));
  }
  __syncthreads();
  const HashedPart<Word> part = part_of<Word>(work);
  constexpr std::uint32_t kOfStripe = kStripeBytes / sizeof(Word);  // elements
  const std::uint32_t end = (part.end + kOfStripe - 1) / kOfStripe;
  const std::uint32_t whole =
      part.is_aligned && part.begin == 0 ? part.end / kOfStripe / kHashLoads * kHashLoads : 0;
  const auto* const own = reinterpret_cast<const Vector16*>(part.elements) + threadIdx.x;
  Sums sums;
  for (std::uint32_t stripe = 0; stripe < whole; stripe += kHashLoads) {
    Vector16 vectors[kHashLoads];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kHashLoads; ++n) vectors[n] = own[(stripe + n) * kThreads];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kHashLoads; ++n)
      add_vector(sums, keys, shared.stripe_keys.of[stripe + n], vectors[n]);
  }
  for (std::uint32_t stripe = whole == 0 ? part.begin / kOfStripe : whole; stripe < end; ++stripe)
    add_vector(sums, keys, shared.stripe_keys.of[stripe],
               part.vector(stripe * kThreads + threadIdx.x));
  const std::uint64_t sum = sums_of_block(shared.sums, {sums.low, sums.high});
  if (threadIdx.x >= 2) return;
  if (work.block_sums != nullptr) add_to(work.block_sums + blockIdx.x, threadIdx.x, sum);
  constexpr std::uint64_t kFirst =
      1 + 2 * (kStripeWords + kMaxStripes);  // of the keys of blocks (src/codec/state_hash.hpp)
  const std::uint64_t key =
      hash_key(kFirst + 2 * (work.place.block + blockIdx.x) + threadIdx.x) | 1;
  if (work.total != nullptr) add_to(work.total, threadIdx.x, sum * key);
}

}  // namespace sparcl::kernels::cuda
