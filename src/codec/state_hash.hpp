#pragma once
// The parts of state_hash() (update.hpp): a sum over blocks, so that blocks may be visited in any order.

#include <span>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/codec/block_view.hpp"

namespace sparcl::codec {

inline Hash128 block_hash(std::span<const std::byte> block, std::uint64_t index) { return xxh3_128(block, index); }

inline Hash128 block_hash(const BlockView& view, std::uint64_t index, std::vector<std::byte>& scratch) {
  return block_hash(whole_block(view, scratch), index);
}

}  // namespace sparcl::codec
