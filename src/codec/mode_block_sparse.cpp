// Mode block_sparse, for block masks: sub-blocks that change, as a whole or in part, and the steps
// of mode flat. Its content is that of a group (group_encoder.hpp, group_decoder.hpp); for a single
// block, of a group of one.

#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::codec {
namespace {

std::size_t cost(BlockChanges& changes) {
  if (changes.fresh || !changes.has_steps) return kCannot;
  const BlockSparseList* list = changes.block_sparse();
  if (list == nullptr) return kCannot;
  const StepList& steps = changes.steps();
  std::byte varint[kMaxVarintBytes];
  return 1 + store_varint(varint, changes.count) + list->head_bytes() + steps.head_bytes() +
         static_cast<std::size_t>((list->bits() + steps.bits() + 7) / 8);
}

void encode(BlockChanges& changes, std::byte* out) {
  *out++ = std::byte{0};  // blocks, less one
  write_stepped(changes, *changes.block_sparse(), out + store_varint(out, changes.count));
}

const char* decode(BlockShape, std::span<const std::byte>, const kernels::KernelSet&,
                   DecodedBlock&) {
  return "is coded as a group";  // never asked
}

}  // namespace

const BlockMode kBlockSparseMode{kBlockSparseId, "block_sparse", false, false,
                                 cost,           encode,         decode};

}  // namespace sparcl::codec
