// Mode classes is no mode of one block: ClassEncoder and ClassDecoder code superblocks. This is its
// row in the table.

#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t cost(BlockChanges&) { return kCannot; }

void encode(BlockChanges&, std::byte*) {}

const char* decode(BlockShape, std::span<const std::byte>, const kernels::KernelSet&,
                   DecodedBlock&) {
  return "is coded by classes";  // never asked
}

}  // namespace

const BlockMode kClassesMode{4,      "classes", false, false,   cost, encode,
                             decode, false,     false, nullptr, true};

}  // namespace sparcl::codec
