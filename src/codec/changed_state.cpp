#include "src/codec/changed_state.hpp"

#include <algorithm>
#include <bitset>
#include <cstring>

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kSampleBlocks = 32;  // 2 Mi elements; heuristic

}  // namespace

void ChangedState::read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                        std::byte* out) const {
  const DataType datatype = map_.arrays()[array].datatype;
  const std::size_t width = element_bytes(datatype);
  if (count == 0) return;  // the array may be none
  std::memcpy(out, arrays_[array] + first * width, count * width);
  while (count > 0) {
    const BlockMap::Place place = map_.place_of(array, first);
    const auto here =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(count, kBlockElements - place.offset));
    for (std::size_t i = logs_.size(); i-- > 0;) {
      ChangeLog::Block block;
      if (!logs_[i]->find(place.block, block)) continue;
      const auto begin = std::ranges::lower_bound(block.positions, place.offset);
      const auto end = std::lower_bound(begin, block.positions.end(), place.offset + here);
      const auto skipped = static_cast<std::size_t>(begin - block.positions.begin());
      kernels_.of(datatype).scatter(out, block.positions.data() + skipped,
                                    static_cast<std::size_t>(end - begin), place.offset,
                                    block.values + skipped * width, {});
    }
    out += here * width;
    first += here;
    count -= here;
  }
}

double distinct_part(std::span<const std::shared_ptr<const ChangeLog>> logs,
                     std::uint64_t block_count) {
  const std::uint64_t samples = std::min(kSampleBlocks, block_count);
  std::uint64_t all = 0;
  std::uint64_t distinct = 0;
  for (std::uint64_t i = 0; i < samples; ++i) {
    std::bitset<kBlockElements> seen;
    for (const auto& log : logs) {
      ChangeLog::Block block;
      if (!log->find(block_count * i / samples, block)) continue;
      for (const std::uint16_t position : block.positions) seen.set(position);
      all += block.positions.size();
    }
    distinct += seen.count();
  }
  return all == 0 ? 1.0 : static_cast<double>(distinct) / static_cast<double>(all);
}

}  // namespace sparcl::codec
