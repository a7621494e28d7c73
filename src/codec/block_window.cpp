#include "src/codec/block_window.hpp"

#include <algorithm>

#include "src/codec/superblock.hpp"

namespace sparcl::codec {

BlockWindow::BlockWindow(const BlockMap& map)
    : map_(map), bits_(static_cast<std::size_t>((map.block_count() + 63) / 64)) {}

void BlockWindow::add_block(std::uint64_t block, const BlockMap::BlockRun& run) {
  if (has(block)) return;
  bits_[block / 64] |= std::uint64_t{1} << block % 64;
  ++count_;
  bytes_ += run.elements(block, block + 1) * element_bytes(run.datatype);
}

void BlockWindow::add(std::uint32_t array, std::uint64_t first, std::uint64_t count) {
  if (count == 0) return;
  std::uint64_t block = map_.place_of(array, first).block,
                last = map_.place_of(array, first + count - 1).block + 1;
  if (has_all(block, last)) return;  // with their superblocks
  const BlockMap::BlockRun run = map_.run_of(block);
  if (has_classes(run.datatype)) {
    block -= (block - run.first_block) % kSuperBlocks;
    const std::uint64_t end = last - run.first_block + kSuperBlocks - 1;
    last = std::min(run.first_block + end / kSuperBlocks * kSuperBlocks, run.end());
  }
  for (; block < last; ++block) add_block(block, run);
}

std::uint64_t BlockWindow::count(std::uint64_t first, std::uint64_t last) const {
  std::uint64_t found = 0;
  for (; first < last; ++first) found += has(first) ? 1 : 0;
  return found;
}

bool BlockWindow::has_any(std::uint64_t first, std::uint64_t last) const {
  for (; first < last; ++first) {
    if (has(first)) return true;
  }
  return false;
}

}  // namespace sparcl::codec
