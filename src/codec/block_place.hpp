#pragma once
// Where blocks lie, in words: for error texts.

#include <cstdint>
#include <functional>
#include <string>

#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// What the caller calls array i, quoted and fit for a message; the codec itself knows arrays by
// number only.
using ArrayName = std::function<std::string(std::uint32_t array)>;

// "block 3", "blocks 3 to 9"; with names "block 3 of 'a', 'b', 'c' and 4 more". Of blocks first <=
// last < map.block_count().
std::string describe_blocks(const BlockMap& map, std::uint64_t first, std::uint64_t last,
                            const ArrayName& name);

}  // namespace sparcl::codec
