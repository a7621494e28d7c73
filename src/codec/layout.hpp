#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// A hash of the arrays' types and counts (docs/reference/wire-format.md). Two maps with the same
// hash cut the same blocks.
std::uint64_t layout_hash(const BlockMap& map);

// The map's runs: how the state is cut into blocks, in a few bytes, for readers without a schema.
std::vector<std::byte> serialise_runs(const BlockMap& map);

// For untrusted bytes: a map with one array for each run, of `elements` in total, that cuts the
// same blocks.
Result<BlockMap> parse_runs(std::span<const std::byte> bytes, std::uint64_t elements);

}  // namespace sparcl::codec
