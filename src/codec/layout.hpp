#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// Of the arrays' types and counts (docs/reference/wire-format.md): two maps with the same cut the
// same blocks.
std::uint64_t layout_hash(const BlockMap& map);

// Its runs: how the state is cut into blocks, in a few bytes, for those who have no schema.
std::vector<std::byte> serialise_runs(const BlockMap& map);

// For hostile bytes: a map with one array a run, of `elements` in all, that cuts the same blocks.
Result<BlockMap> parse_runs(std::span<const std::byte> bytes, std::uint64_t elements);

}  // namespace sparcl::codec
