#pragma once
// The codec's view of a state: its blocks and its hash.

#include <cstddef>
#include <span>

#include "src/base/checksum.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/schema.hpp"
#include "src/trust/sha256.hpp"

namespace sparcl::model {

// The positions of a state's elements in the codec's blocks. The schema must be valid.
codec::BlockMap make_block_map(const Schema& schema);

// A hash of names, types, shapes, order and bytes. tensors[i]: the bytes of tensor i, one for each
// tensor (InvalidArgument otherwise).
Result<Hash128> state_hash(const Schema& schema, std::span<const std::byte* const> tensors,
                           const FileWatch& watch = {});
// Reads the checkpoint's files; the same holds for the functions below.
Result<Hash128> state_hash(const Checkpoint& checkpoint, const FileWatch& watch = {});
// Every array is present. The schema must be valid. The caller checks the sources' status().
Result<Hash128> state_hash_from(const Schema& schema, const codec::ArrayInput& tensors,
                                const FileWatch& watch = {});

// Independent hashes of all bytes, for proofs of equality and for comparisons with other systems'
// manifests. Not for the critical path.

// XXH3-128, seed 0, of the schema's canonical bytes and then of every tensor's, in order.
Result<Hash128> xxh3_hash(const Schema& schema, std::span<const std::byte* const> tensors);
Result<Hash128> xxh3_hash(const Checkpoint& checkpoint, const FileWatch& watch = {});

// GRAIL's weights_hash: SHA-256 over the tensors sorted by name. For each tensor it covers the
// name, the dtype as PyTorch writes it ("torch.bfloat16") and the bytes. Shapes are not included. A
// name is written as UTF-8.
Result<trust::Sha256::Digest> weights_hash(const Schema& schema,
                                           std::span<const std::byte* const> tensors);
Result<trust::Sha256::Digest> weights_hash(const Checkpoint& checkpoint,
                                           const FileWatch& watch = {});

}  // namespace sparcl::model
