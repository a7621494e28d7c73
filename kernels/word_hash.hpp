#pragma once
// Contract of the state hash (docs/reference/wire-format.md): two sums, modulo 2^64 each, over the
// 32-bit words of a block, each word multiplied by the key of its position. The sums are linear: a
// change moves them by itself, and nothing else has to be read. They need only 32 x 64 bit
// products, which every CPU and GPU has. This is a multilinear hash in two levels (Carter & Wegman
// 1979; Lemire & Kaser, "Strongly universal string hashing is fast", 2014). Word w of a stripe has
// key t_j[w], stripe s of a block the odd key r_j[s].

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/checksum.hpp"

namespace sparcl::kernels {

constexpr std::size_t kStripeWords =
    1024;  // the keys of a stripe for both sums take 16 KiB: half of the smallest L1
constexpr std::size_t kStripeBytes = 4 * kStripeWords;
constexpr std::size_t kMaxStripes = 128;  // 65,536 elements of 8 bytes

// The n-th output of SplitMix64 (Steele, Lea & Flood 2014) from seed 0.
constexpr std::uint64_t hash_key(std::uint64_t n) {
  std::uint64_t z = n * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

struct HashKeys {  // both sums' keys side by side
  std::array<std::array<std::uint64_t, 2>, kStripeWords> words;
  std::array<std::array<std::uint64_t, 2>, kMaxStripes>
      stripes;  // odd, so that multiplication loses nothing
};

constexpr HashKeys make_hash_keys() {
  HashKeys keys{};
  for (std::uint64_t i = 0; i < 2 * kStripeWords; ++i) keys.words[i / 2][i % 2] = hash_key(1 + i);
  for (std::uint64_t i = 0; i < 2 * kMaxStripes; ++i)
    keys.stripes[i / 2][i % 2] = hash_key(1 + 2 * kStripeWords + i) | 1;
  return keys;
}

alignas(64) inline constexpr HashKeys kHashKeys = make_hash_keys();

// The sums over all of a block, at most kMaxStripes * kStripeBytes; the last word is padded with
// zeros. Any alignment.
using HashWordsKernel = Hash128(const std::byte* bytes, std::size_t byte_count);

// The sums over some elements, as if the rest of the block were zeros, for two sets of values at
// the same positions. Callers always need both, and the keys cost more than the products.
// new_values may be old_values.
struct ChangeHashes {
  Hash128 old_values;
  Hash128 new_values;
};
using HashChangesKernel = ChangeHashes(const std::uint16_t* positions, std::size_t count,
                                       const std::byte* old_values, const std::byte* new_values);

}  // namespace sparcl::kernels
