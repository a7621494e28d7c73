// Modes flat_group and two_level_group are none of one block: GroupEncoder and GroupDecoder code
// groups. These are their rows in the table.

#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t cost(BlockChanges&) { return kCannot; }

void encode(BlockChanges&, std::byte*) {}

const char* decode(BlockShape, std::span<const std::byte>, const kernels::KernelSet&,
                   DecodedBlock&) {
  return "is coded as a group";  // never asked
}

}  // namespace

const BlockMode kFlatGroupMode{kFlatGroupId, "flat_group", false, false, cost, encode, decode};
const BlockMode kTwoLevelGroupMode{
    kTwoLevelGroupId, "two_level_group", false, false, cost, encode, decode};

}  // namespace sparcl::codec
