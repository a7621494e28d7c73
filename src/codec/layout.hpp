#pragma once

#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// Of the arrays' types and counts (docs/wire-format.md): two maps with the same cut the same blocks.
std::uint64_t layout_hash(const BlockMap& map);

}  // namespace sparcl::codec
