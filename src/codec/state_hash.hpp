#pragma once
// The state hash and the digests of chunks in terms of the kernels' sums (kernels/word_hash.hpp).
// Both are sums over blocks, and each block's sums are multiplied by keys of its number. Blocks may
// therefore be visited in any order, and changes can be added separately.

#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_view.hpp"

namespace sparcl::codec {

// A block's sums, multiplied by the keys of its number.
constexpr Hash128 placed(const Hash128& sums, std::uint64_t block) {
  constexpr std::uint64_t kFirst =
      1 + 2 * (kernels::kStripeWords + kernels::kMaxStripes);  // the keys before are the kernels'
  return {sums.low * (kernels::hash_key(kFirst + 2 * block) | 1),
          sums.high * (kernels::hash_key(kFirst + 2 * block + 1) | 1)};
}

// 64 bits of placed sums: the high halves. The low bits of a multilinear sum depend only on the low
// bits of the words. The high halves of two different inputs are equal with a probability of about
// 2^-32, for any inputs.
constexpr std::uint64_t digest_of(const Hash128& sums) {
  return (sums.low >> 32) | (sums.high & 0xffffffff00000000);
}

// The two bytes after a block that lists positions.
constexpr std::uint16_t old_check_of(const Hash128& sums) {
  return static_cast<std::uint16_t>(sums.low >> 48);
}

// The hash of a whole block, with its keys.
inline Hash128 block_hash(const BlockView& view, std::uint64_t block,
                          const kernels::KernelSet& kernels, std::vector<std::byte>& scratch) {
  const std::span<const std::byte> bytes = whole_block(view, scratch);
  return placed(kernels.hash_words(bytes.data(), bytes.size()), block);
}

// The contribution of blocks [first, last) of a state to its hash. Every array is present.
Hash128 blocks_hash(const BlockMap& map, const ArrayInput& arrays, std::uint64_t first,
                    std::uint64_t last, const kernels::KernelSet& kernels);

// The same for each block, added to `hashes`.
void add_block_hashes(const BlockMap& map, const ArrayInput& arrays, std::uint64_t first,
                      std::uint64_t last, const kernels::KernelSet& kernels,
                      std::vector<Hash128>& hashes);

// The hashes of some elements of a block, with its keys.
inline kernels::ChangeHashes changes_hash(const kernels::KernelSet& kernels, DataType datatype,
                                          Positions positions, const std::byte* old_values,
                                          const std::byte* new_values, std::uint64_t block) {
  const auto sums =
      kernels.of(datatype).hash_changes(positions.data(), positions.size(), old_values, new_values);
  return {placed(sums.old_values, block), placed(sums.new_values, block)};
}

}  // namespace sparcl::codec
