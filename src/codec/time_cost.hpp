#pragma once
// What a block costs in time from one end of a link to the other, as far as the number of its
// changes tells: so that a block of which much changed is not listed element by element where it is
// through sooner as it is. Integers only.

#include <cstdint>

#include "src/codec/block_view.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// Does the block as it is take less time than its `count` changes, the last of which is at `last`?
bool whole_is_faster(BlockShape shape, std::size_t count, std::uint16_t last, const LinkTime& link);

}  // namespace sparcl::codec
