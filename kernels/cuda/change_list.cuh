#pragma once
// Block routines for changes: a block of threads takes a block of the codec. Checking goes before writing, as two launches: whole
// or not at all. The hash of what changes comes with the writes, at no further read (kernels/word_hash.hpp).

#include "kernels/cuda/thread_sums.cuh"
#include "kernels/word_hash.hpp"

namespace sparcl::kernels::cuda {

struct ApplyShared {
  BlockSumsShared sums;
};

struct Sums {
  std::uint64_t low = 0, high = 0;
};

__device__ inline void add_word(Sums& sums, std::uint32_t place, std::uint32_t word) {
  // The keys are made anew: a few multiplications cost less than two reads of a table that lies in no cache.
  const std::uint64_t in_stripe = 1 + 2 * (place % kStripeWords);
  const std::uint64_t stripe = 1 + 2 * kStripeWords + 2 * (place / kStripeWords);
  sums.low += word * hash_key(in_stripe) * (hash_key(stripe) | 1);
  sums.high += word * hash_key(in_stripe + 1) * (hash_key(stripe + 1) | 1);
}

template <class Word>
__device__ inline void add_element(Sums& sums, std::uint32_t position, Word value) {
  const std::uint32_t at = position * static_cast<std::uint32_t>(sizeof(Word));
  if constexpr (sizeof(Word) == 8) {
    add_word(sums, at / 4, static_cast<std::uint32_t>(value));
    add_word(sums, at / 4 + 1, static_cast<std::uint32_t>(value >> 32));
  } else {
    add_word(sums, at / 4, std::uint32_t{value} << (8 * (at % 4)));
  }
}

// How many changes of block blockIdx.x have an old value that is not the array's: added to *work.refused.
template <class Word>
__device__ inline void check_old_values(const ApplyWork& work) {
  const std::uint64_t block = blockIdx.x;
  const Word* const array = static_cast<const Word*>(work.array) + block * kBlockElements;
  std::uint64_t refused = 0;
  for (std::uint64_t i = work.changes.block_starts[block] + threadIdx.x; i < work.changes.block_starts[block + 1]; i += kThreads) {
    if (array[work.changes.positions[i]] != static_cast<const Word*>(work.changes.old_values)[i]) ++refused;
  }
  refused = sum_of_warp(refused);
  if (threadIdx.x % kWarp == 0 && refused != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(work.refused), (unsigned long long)refused);
}

template <class Word>
__device__ inline void apply_changes(ApplyShared& shared, const ApplyWork& work) {
  if (work.refused != nullptr && *work.refused != 0) return;
  const std::uint64_t block = blockIdx.x;
  Word* const array = static_cast<Word*>(work.array) + block * kBlockElements;
  Sums before, after;
  for (std::uint64_t i = work.changes.block_starts[block] + threadIdx.x; i < work.changes.block_starts[block + 1]; i += kThreads) {
    const std::uint16_t position = work.changes.positions[i];
    const Word value = static_cast<const Word*>(work.changes.new_values)[i];
    if (work.hashes != nullptr) {
      add_element<Word>(before, position, array[position]);
      add_element<Word>(after, position, value);
    }
    array[position] = value;
  }
  if (work.hashes == nullptr) return;
  const std::uint64_t sum = sums_of_block(shared.sums, {before.low, before.high, after.low, after.high});
  if (threadIdx.x < 4) reinterpret_cast<std::uint64_t*>(work.hashes + block)[threadIdx.x] = sum;
}

}  // namespace sparcl::kernels::cuda
