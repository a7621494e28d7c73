#pragma once
// SHA-256 of all that a replica holds, block by block. The linear state hash finds accidents only:
// an attacker can choose other bytes with the same state hash, but not with the same digests
// (docs/decisions/0027-vouched-states.md).

#include <vector>

#include "src/base/checksum.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/replication/version_words.hpp"

namespace sparcl::replication {

// The digest of one state, whose arrays may lie elsewhere at each step.
class StateDigest {
 public:
  explicit StateDigest(const Hash128& schema_hash) : schema_hash_(schema_hash) {}

  // Some more blocks of it. True: these were the last.
  Result<bool> step(const codec::BlockMap& map, const codec::ArrayInput& arrays,
                    std::uint64_t max_blocks);
  // The digest of each block that was read.
  const std::vector<Digest256>& of_blocks() const { return of_blocks_; }
  // Once all were: of them all.
  Result<Digest256> finish() const;

 private:
  Hash128 schema_hash_;
  std::vector<Digest256> of_blocks_;
};

}  // namespace sparcl::replication
