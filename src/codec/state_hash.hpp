#pragma once
// The state hash and the digests of chunks in terms of the kernels' sums (kernels/word_hash.hpp):
// both are sums over blocks, each block's sums times keys of its number, so that blocks may be
// visited in any order and a change counts for itself.

#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_view.hpp"

namespace sparcl::codec {

// A block's sums at its place among the blocks.
constexpr Hash128 placed(const Hash128& sums, std::uint64_t block) {
  constexpr std::uint64_t kFirst =
      1 + 2 * (kernels::kStripeWords + kernels::kMaxStripes);  // the keys before are the kernels'
  return {sums.low * (kernels::hash_key(kFirst + 2 * block) | 1),
          sums.high * (kernels::hash_key(kFirst + 2 * block + 1) | 1)};
}

// 64 bits of placed sums: the high halves. The low bits of a multilinear sum depend on the low bits
// of the words alone; of its high half two different inputs agree with a probability of about
// 2^-32, whatever they are.
constexpr std::uint64_t digest_of(const Hash128& sums) {
  return (sums.low >> 32) | (sums.high & 0xffffffff00000000);
}

// The two bytes behind a block that lists positions.
constexpr std::uint16_t old_check_of(const Hash128& sums) {
  return static_cast<std::uint16_t>(sums.low >> 48);
}

// All of a block, at its place.
inline Hash128 block_hash(const BlockView& view, std::uint64_t block,
                          const kernels::KernelSet& kernels, std::vector<std::byte>& scratch) {
  const std::span<const std::byte> bytes = whole_block(view, scratch);
  return placed(kernels.hash_words(bytes.data(), bytes.size()), block);
}

// What blocks [first, last) of a state contribute to its hash. Every array is there.
Hash128 blocks_hash(const BlockMap& map, const ArrayInput& arrays, std::uint64_t first,
                    std::uint64_t last, const kernels::KernelSet& kernels);

// The same of each of them: added to `hashes`.
void add_block_hashes(const BlockMap& map, const ArrayInput& arrays, std::uint64_t first,
                      std::uint64_t last, const kernels::KernelSet& kernels,
                      std::vector<Hash128>& hashes);

// Some elements of a block, at its place.
inline kernels::ChangeHashes changes_hash(const kernels::KernelSet& kernels, DataType datatype,
                                          Positions positions, const std::byte* old_values,
                                          const std::byte* new_values, std::uint64_t block) {
  const auto sums =
      kernels.of(datatype).hash_changes(positions.data(), positions.size(), old_values, new_values);
  return {placed(sums.old_values, block), placed(sums.new_values, block)};
}

}  // namespace sparcl::codec
