#include "src/codec/class_regions.hpp"

#include <algorithm>
#include <span>

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kChunksOfABlock = kBlockElements / kSampleElements;
constexpr std::uint64_t kWholeBlocks =
    16;  // a region of at most this size (1 Mi elements) is its own sample
constexpr std::uint64_t kSampleChunks =
    96;  // of larger ones: at 1 % about 2,000 changes, and 4 % of the time to encode it
constexpr std::uint64_t kFewestChanges = 64;  // in a sample that says anything

// Strewn, so that no period of the tensor's rows is met.
std::uint64_t mix(std::uint64_t z) {
  z = (z + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  return (z ^ (z >> 31)) * 0x94d049bb133111eb >> 32;
}

// Elements [first, first + count) of a block.
void add_chunk(std::span<const Piece> pieces, std::uint32_t first, std::uint32_t count,
               std::vector<SamplePart>& parts) {
  for (const Piece& piece : pieces) {
    const std::uint32_t begin = std::max(first, piece.offset);
    const std::uint32_t end = std::min(first + count, piece.offset + piece.count);
    if (begin < end)
      parts.push_back({piece.array, piece.first + (begin - piece.offset), end - begin});
  }
}

}  // namespace

const RegionTable* ClassRegions::table_for(const Superblock& superblock) {
  if (superblock.first >= region_end_) choose(map_.run_of(superblock.first), superblock.first);
  return has_table_ ? &tables_.back() : nullptr;
}

void ClassRegions::choose(const BlockMap::BlockRun& run, std::uint64_t first) {
  region_end_ = std::min(first + region_blocks_, run.end());
  const std::uint64_t superblocks = (region_end_ - first + kSuperBlocks - 1) / kSuperBlocks;
  const std::uint64_t elements = run.elements(first, region_end_);
  const ClassSample sample = take_sample_(first, region_end_);
  has_table_ = false;
  if (sample.changes() < (always_ ? 1 : kFewestChanges)) return;
  const ClassChoice best = choose_classes(sample, elements);
  // One class is like the flat mode with larger blocks: not worth a pass over the exponents of all
  // elements.
  if (best.table.cut.count < 2 && !always_) return;
  has_table_ = true;
  const std::uint64_t own_bits =
      best.sample_bits + overhead_bits(best.table.cut.count, sample, elements);
  // Twice its bits: a table that fits the sample by chance is no gain.
  const std::uint64_t table_bits = 16 * best.table.bytes() * sample.elements() / elements;
  if (!tables_.empty()) {
    const ClassTable& last = tables_.back().table;
    if (sample_bits(last, sample) + overhead_bits(last.cut.count, sample, elements) <=
        own_bits + table_bits)
      return;
  }
  tables_.push_back(
      {best.table, tables_.size() + 1, (best.table.bytes() + 2 + superblocks - 1) / superblocks});
}

std::vector<SamplePart> sample_parts(const BlockMap& map, std::uint64_t first, std::uint64_t last) {
  std::vector<SamplePart> parts;
  std::vector<Piece> pieces;
  const auto add = [&](std::uint64_t chunk) {
    map.block(first + chunk / kChunksOfABlock, pieces);
    add_chunk(pieces, static_cast<std::uint32_t>(chunk % kChunksOfABlock * kSampleElements),
              kSampleElements, parts);
  };
  if (last - first <= kWholeBlocks) {
    for (std::uint64_t chunk = 0; chunk < (last - first) * kChunksOfABlock; ++chunk) add(chunk);
    return parts;
  }
  const std::uint64_t chunks = map.run_of(first).elements(first, last) / kSampleElements;
  for (std::uint64_t i = 0; i < kSampleChunks; ++i) {
    const std::uint64_t begin = chunks * i / kSampleChunks;
    add(begin + mix(i) % (chunks * (i + 1) / kSampleChunks - begin));
  }
  return parts;
}

ClassRegions::TakeSample sample_on_host(const BlockMap& map, const ArrayInput& base,
                                        const ArrayInput& target) {
  return [&map, &base, &target](std::uint64_t first, std::uint64_t last) {
    constexpr std::size_t kWidth = sizeof(std::uint16_t);
    ClassSample sample;
    std::vector<std::byte> old_values;
    std::vector<std::byte> new_values;
    for (const SamplePart& part : sample_parts(map, first, last)) {
      if (!base.has(part.array)) continue;
      sample.add(base.read(part.array, part.first, part.count, kWidth, old_values),
                 target.read(part.array, part.first, part.count, kWidth, new_values), part.count);
    }
    return sample;
  };
}

}  // namespace sparcl::codec
