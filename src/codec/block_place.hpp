#pragma once
// Locations of blocks in words, for error texts.

#include <cstdint>
#include <functional>
#include <string>

#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// The caller's name of array i, quoted and safe for a message. The codec itself knows arrays only
// by number.
using ArrayName = std::function<std::string(std::uint32_t array)>;

// "block 3", "blocks 3 to 9"; with names "block 3 of 'a', 'b', 'c' and 4 more". first <= last <
// map.block_count().
std::string describe_blocks(const BlockMap& map, std::uint64_t first, std::uint64_t last,
                            const ArrayName& name);

}  // namespace sparcl::codec
