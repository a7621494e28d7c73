#include "src/codec/work_memory.hpp"

#include <algorithm>

#include "src/codec/block_decoder.hpp"
#include "src/codec/class_regions.hpp"

namespace sparcl::codec {

WorkMemory work_memory(const BlockMap& map, unsigned threads) {
  constexpr std::uint64_t kEntryBytes =
      3 * sizeof(BlockEntry);  // while their list grows, the old one and one twice as large
  constexpr std::uint64_t kRegionBytes =
      ClassRegions::kRegionBlocks * kBlockElements * sizeof(double);
  const std::uint64_t waiting =
      threads > 1 ? std::min<std::uint64_t>(map.byte_count(), threads * kRegionBytes) : 0;
  return {threads * kEncodeWorkBytes + waiting,
          threads * kDecodeWorkBytes + map.block_count() * kEntryBytes};
}

}  // namespace sparcl::codec
