#pragma once
// What the codec needs of a state.

#include <cstddef>
#include <span>

#include "src/base/checksum.hpp"
#include "src/codec/block_map.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/schema.hpp"

namespace sparcl::model {

// Where the elements of a state lie in the codec's blocks. The schema must be valid.
codec::BlockMap make_block_map(const Schema& schema);

// Of names, types, shapes, order and bytes. tensors[i]: the bytes of tensor i, one a tensor (InvalidArgument otherwise).
Result<Hash128> state_hash(const Schema& schema, std::span<const std::byte* const> tensors);
Result<Hash128> state_hash(const Checkpoint& checkpoint);

}  // namespace sparcl::model
