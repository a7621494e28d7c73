// Modes dense and fresh: the block as it is.

#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t dense_cost(BlockChanges& changes) {
  return changes.fresh || !changes.has_all_values() ? kCannot : changes.shape().bytes();
}
std::size_t fresh_cost(BlockChanges& changes) {
  return changes.fresh ? changes.shape().bytes() : kCannot;
}
void encode(BlockChanges& changes, std::byte* out) { copy_block(changes.target, out); }

template <bool kFresh>
const char* decode(BlockShape shape, std::span<const std::byte> payload, const kernels::KernelSet&,
                   DecodedBlock& block) {
  if (payload.size() != shape.bytes()) return "is not as long as its block";
  block.kind = DecodedKind::kWhole;
  block.fresh = kFresh;
  block.count = shape.elements;
  block.whole = payload.data();
  return nullptr;
}

}  // namespace

const BlockMode kDenseMode{0,    "dense", true,    true, dense_cost, encode, decode<false>,
                           true, false,   nullptr, true};
const BlockMode kFreshMode{1,    "fresh", false,   true, fresh_cost, encode, decode<true>,
                           true, true,    nullptr, true};

}  // namespace sparcl::codec
