#pragma once
// SHA-256 of all that a replica holds, block by block. The linear state hash finds accidents; bytes that somebody chose can have
// any state hash that he likes, and these digests not (docs/decisions/0027-vouched-states.md).

#include "src/base/checksum.hpp"
#include "src/base/sha256.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/replication/stream_digest.hpp"

namespace sparcl::replication {

// The digest of one state, whose arrays may lie elsewhere at each step.
class StateDigest {
 public:
  explicit StateDigest(const Hash128& schema_hash);

  // Some more blocks of it. True: these were the last.
  Result<bool> step(const codec::BlockMap& map, const codec::ArrayInput& arrays, std::uint64_t most_blocks);
  // Then, once.
  Result<Digest256> finish();

 private:
  Sha256 sha_;  // of the blocks' digests
  std::uint64_t next_block_ = 0;
};

}  // namespace sparcl::replication
