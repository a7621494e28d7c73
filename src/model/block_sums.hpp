#pragma once
// The state hashes of all blocks of a state, made step by step. Uses: a sweep beside other work
// that checks the held state against the last update, and the leaves of a search for the blocks in
// which two states differ (bisect.hpp).

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::model {

class BlockSums {
 public:
  // map and arrays outlive it. 16 bytes of memory a block of 65,536 elements.
  BlockSums(const codec::BlockMap& map, std::span<const std::byte* const> arrays,
            const Hash128& schema_hash, const kernels::KernelSet& kernels = kernels::cpu_kernels());

  // Hashes up to `blocks` more blocks. True when all are hashed. Writes to the arrays between two
  // steps count only in blocks that are not hashed yet.
  bool step(std::uint64_t blocks);
  bool finished() const { return next_block() == block_count(); }
  // Starts again: the arrays have changed.
  void restart();

  std::uint64_t block_count() const { return map_.block_count(); }
  std::uint64_t next_block() const { return sums_.size() - 1; }

  // The sum of blocks [first, first + count), all of them hashed already.
  Hash128 of(std::uint64_t first, std::uint64_t count) const {
    return sums_[first + count] - sums_[first];
  }
  // When finished: that of codec::state_hash.
  Hash128 state_hash() const { return schema_hash_ + sums_.back(); }
  const Hash128& schema_hash() const { return schema_hash_; }

 private:
  const codec::BlockMap& map_;
  std::vector<const std::byte*> arrays_;
  Hash128 schema_hash_;
  const kernels::KernelSet& kernels_;
  std::vector<Hash128>
      sums_;  // over the blocks before each, so that the sum of a range is a difference
  std::vector<codec::Piece> pieces_;
  std::vector<std::byte> scratch_;
};

}  // namespace sparcl::model
