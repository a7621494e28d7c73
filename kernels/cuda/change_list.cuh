#pragma once
// Block routines for changes: a block of threads takes a block of the codec. Checking goes before
// writing, as two launches: whole or not at all. The hash of what changes comes with the writes, at
// no further read (kernels/word_hash.hpp).

#include "kernels/cuda/thread_sums.cuh"
#include "kernels/word_hash.hpp"

namespace sparcl::kernels::cuda {

struct StripeKeys {
  std::uint64_t of[kMaxStripes][2];

  // By all threads; a barrier comes after it.
  __device__ void make() {
    of[threadIdx.x / 2][threadIdx.x % 2] = hash_key(1 + 2 * kStripeWords + threadIdx.x) | 1;
  }
};
static_assert(2 * kMaxStripes == kThreads);

struct PlaceKey {
  std::uint64_t low, high;
};
// Half of the key is computed: a few multiplications cost less than reads of a table of 16 KiB,
// which is in no cache.
__device__ inline PlaceKey key_of(const StripeKeys& stripes, std::uint32_t place) {
  const std::uint64_t in_stripe = 1 + 2 * (place % kStripeWords);
  const std::uint64_t(&stripe)[2] = stripes.of[place / kStripeWords];
  return {hash_key(in_stripe) * stripe[0], hash_key(in_stripe + 1) * stripe[1]};
}

struct Sums {
  std::uint64_t low = 0, high = 0;

  __device__ void add(std::uint32_t word, const PlaceKey& key) {
    low += word * key.low;
    high += word * key.high;
  }
};
struct ChangeSums {
  Sums before, after;

  // The place's key is the same for both values.
  template <class Word>
  __device__ void add(const StripeKeys& stripes, std::uint32_t position, Word old_value,
                      Word new_value) {
    const std::uint32_t at = position * static_cast<std::uint32_t>(sizeof(Word));
    for (unsigned part = 0; part < (sizeof(Word) + 3) / 4; ++part) {
      const PlaceKey key = key_of(stripes, at / 4 + part);
      before.add(static_cast<std::uint32_t>(std::uint64_t{old_value} >> (32 * part))
                     << (8 * (at % 4)),
                 key);
      after.add(static_cast<std::uint32_t>(std::uint64_t{new_value} >> (32 * part))
                    << (8 * (at % 4)),
                key);
    }
  }

  // Thread n < 4 has word n of the block's hashes.
  __device__ std::uint64_t of_block(BlockSumsShared& shared) const {
    return sums_of_block(shared, {before.low, before.high, after.low, after.high});
  }
};
__device__ inline std::uint64_t* words_of(DeviceChangeHashes& hashes) {
  return reinterpret_cast<std::uint64_t*>(&hashes);
}

struct ApplyShared {
  StripeKeys stripe_keys;
  BlockSumsShared sums;
};

// Changes of a thread whose loads are in flight at once. Heuristic: if 1 % of a block changes, a
// thread has no more changes than these.
constexpr unsigned kChangeItems = 3;

template <class Word>
struct ChangeBatch {
  std::uint16_t positions[kChangeItems];
  Word old_values[kChangeItems], new_values[kChangeItems];

  // Changes i, i + kThreads and so on. From `end` on it is change i once more: a branch would come
  // between the loads.
  __device__ void load(const DeviceChanges& changes, std::uint64_t i, std::uint64_t end) {
    SPARCL_UNROLL
    for (unsigned n = 0; n < kChangeItems; ++n) {
      const std::uint64_t at = i + n * kThreads < end ? i + n * kThreads : i;
      positions[n] = changes.positions[at];
      old_values[n] = static_cast<const Word*>(changes.old_values)[at];
      new_values[n] = static_cast<const Word*>(changes.new_values)[at];
    }
  }
};

// Calls visit(position, old value, new value) for a thread's share of the changes [first, end).
// nvcc removes loads of values that visit() does not use.
template <class Word, class Visit>
__device__ inline void for_each_change(const DeviceChanges& changes, std::uint64_t first,
                                       std::uint64_t end, Visit visit) {
  for (std::uint64_t i = first + threadIdx.x; i < end; i += kChangeItems * kThreads) {
    ChangeBatch<Word> batch;
    batch.load(changes, i, end);
    SPARCL_UNROLL
    for (unsigned n = 0; n < kChangeItems; ++n) {
      if (i + n * kThreads < end)
        visit(batch.positions[n], batch.old_values[n], batch.new_values[n]);
    }
  }
}

// How many changes of block blockIdx.x have an old value that is not the array's: added to
// *work.refused.
template <class Word>
__device__ inline void check_old_values(const ApplyWork& work) {
  const std::uint64_t block = blockIdx.x;
  const Word* const array = static_cast<const Word*>(work.array) + block * kBlockElements;
  const std::uint64_t first = work.changes.block_starts[block],
                      end = work.changes.block_starts[block + 1];
  std::uint64_t refused = 0;
  for (std::uint64_t i = first + threadIdx.x; i < end; i += kChangeItems * kThreads) {
    ChangeBatch<Word> batch;
    batch.load(work.changes, i, end);
    Word held[kChangeItems];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kChangeItems; ++n) held[n] = array[batch.positions[n]];
    SPARCL_UNROLL
    for (unsigned n = 0; n < kChangeItems; ++n)
      refused += i + n * kThreads < end && held[n] != batch.old_values[n] ? 1 : 0;
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
  const std::uint64_t first = work.changes.block_starts[block],
                      end = work.changes.block_starts[block + 1];
  if (work.hashes == nullptr) {
    return for_each_change<Word>(
        work.changes, first, end,
        [=](std::uint16_t position, Word, Word new_value) { array[position] = new_value; });
  }
  shared.stripe_keys.make();
  __syncthreads();
  ChangeSums sums;
  for_each_change<Word>(work.changes, first, end,
                        [&](std::uint16_t position, Word old_value, Word new_value) {
                          array[position] = new_value;
                          sums.add(shared.stripe_keys, position, old_value, new_value);
                        });
  const std::uint64_t sum = sums.of_block(shared.sums);
  if (threadIdx.x < 4) words_of(work.hashes[block])[threadIdx.x] = sum;
}

}  // namespace sparcl::kernels::cuda
