#include "src/codec/blocks_in_order.hpp"

namespace sparcl::codec {

BlocksInOrder::BlocksInOrder(const BlockMap& map, std::span<std::byte* const> held,
                             const kernels::KernelSet& kernels)
    : input_{map, {held.begin(), held.end()}, Verify::kTouched, kernels, {}, {}},
      decoder_(input_, Writing::kStaged) {}

Result<bool> BlocksInOrder::check(const Staging& staging, const BlockEntry& entry) {
  if (entry.last > end_) {
    waiting_ = BlockRange{entry.index, entry.last};
    return false;
  }
  waiting_.reset();
  BlockEntry own = entry;
  SPARCL_RETURN_IF_ERROR(decoder_.check(staging, own));
  decoder_.flush();
  decoder_.begin_writes(kernels::Output::kCached);
  SPARCL_RETURN_IF_ERROR(decoder_.apply(staging, own));
  decoder_.flush_writes();
  return true;
}

}  // namespace sparcl::codec
