#pragma once
// Estimates the time of a block from one end of a link to the other, from the number of its
// changes. If much of a block changed, sending it whole can be faster than listing its changes.
// Integers only.

#include <cstdint>

#include "src/codec/block_view.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// Does the whole block take less time than its `count` changes, the last of which is at `last`?
bool whole_is_faster(BlockShape shape, std::size_t count, std::uint16_t last, const LinkTime& link);

}  // namespace sparcl::codec
