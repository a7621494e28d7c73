#pragma once
// The identity of a state: a SHA-256 tree over its blocks, with its list of tensors. The linear
// state hash finds accidents only: an attacker can choose other bytes with the same state hash, but
// not with the same identity (docs/decisions/0027-vouched-states.md,
// docs/reference/wire-format.md).

#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/stream_digest.hpp"

namespace sparcl::model {

// The identity of one state, whose arrays may lie elsewhere at each step.
class StateIdentity {
 public:
  // schema_digest: sha256_of() the list of tensors, as serialise() writes it.
  explicit StateIdentity(const Digest256& schema_digest) : schema_digest_(schema_digest) {}

  // Reads at most max_blocks more blocks. True: these were the last.
  Result<bool> step(const codec::BlockMap& map, const codec::ArrayInput& arrays,
                    std::uint64_t max_blocks);
  // The digest of each block that was read: the leaves of the tree.
  const std::vector<Digest256>& of_blocks() const { return of_blocks_; }
  // Call it once all blocks were read.
  Result<Digest256> finish() const;

 private:
  Digest256 schema_digest_;
  std::vector<Digest256> of_blocks_;
};

Result<Digest256> state_identity(const Schema& schema, const codec::ArrayInput& arrays,
                                 const FileWatch& watch = {});
// Reads the checkpoint's files.
Result<Digest256> state_identity(const Checkpoint& checkpoint, const FileWatch& watch = {});

}  // namespace sparcl::model
