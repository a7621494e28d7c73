#include "src/codec/class_regions.hpp"

#include <algorithm>

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kChunkElements = 2048;
constexpr std::uint64_t kChunksOfABlock = kBlockElements / kChunkElements;
constexpr std::uint64_t kWholeBlocks = 16;    // a region up to here (1 Mi elements) is its own sample
constexpr std::uint64_t kSampleChunks = 96;   // of larger ones: at 1 % about 2,000 changes, and 4 % of the time to encode it
constexpr std::uint64_t kFewestChanges = 64;  // in a sample that says anything

// Strewn, so that no period of the tensor's rows is met.
std::uint64_t mix(std::uint64_t z) {
  z = (z + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  return (z ^ (z >> 31)) * 0x94d049bb133111eb >> 32;
}

// Adds elements [first, first + count) of a block.
void add_chunk(ClassSample& sample, std::span<const Piece> pieces, const ArrayInput& base, const ArrayInput& target,
               std::uint32_t first, std::uint32_t count) {
  constexpr std::size_t kWidth = sizeof(std::uint16_t);
  std::vector<std::byte> old_values;
  std::vector<std::byte> new_values;
  for (const Piece& piece : pieces) {
    const std::uint32_t begin = std::max(first, piece.offset);
    const std::uint32_t end = std::min(first + count, piece.offset + piece.count);
    if (begin >= end || !base.has(piece.array)) continue;
    const std::uint64_t at = piece.first + (begin - piece.offset);
    sample.add(base.read(piece.array, at, end - begin, kWidth, old_values),
               target.read(piece.array, at, end - begin, kWidth, new_values), end - begin);
  }
}

}  // namespace

const RegionTable* ClassRegions::table_for(const Superblock& superblock) {
  if (superblock.first >= region_end_) choose(map_.run_of(superblock.first), superblock.first);
  return has_table_ ? &tables_.back() : nullptr;
}

void ClassRegions::choose(const BlockMap::BlockRun& run, std::uint64_t first) {
  region_end_ = std::min(first + kRegionBlocks, run.end());
  const std::uint64_t superblocks = (region_end_ - first + kSuperBlocks - 1) / kSuperBlocks;
  const std::uint64_t elements = run.elements(first, region_end_);
  const ClassSample sample = take_sample(run, first, region_end_);
  has_table_ = false;
  if (sample.changes() < (always_ ? 1 : kFewestChanges)) return;
  const ClassChoice best = choose_classes(sample, elements);
  // One class is the flat mode, but for its larger blocks: not worth a look at every element's exponent.
  if (best.table.cut.count < 2 && !always_) return;
  has_table_ = true;
  const std::uint64_t own_bits = best.sample_bits + overhead_bits(best.table.cut.count, sample, elements);
  // Twice its bits: a table that fits the sample by chance is no gain.
  const std::uint64_t table_bits = 16 * best.table.bytes() * sample.elements() / elements;
  if (!tables_.empty()) {
    const ClassTable& last = tables_.back().table;
    if (sample_bits(last, sample) + overhead_bits(last.cut.count, sample, elements) <= own_bits + table_bits) return;
  }
  tables_.push_back({best.table, tables_.size() + 1, (best.table.bytes() + 2 + superblocks - 1) / superblocks});
}

ClassSample ClassRegions::take_sample(const BlockMap::BlockRun& run, std::uint64_t first, std::uint64_t last) const {
  ClassSample sample;
  std::vector<Piece> pieces;
  if (last - first <= kWholeBlocks) {
    for (std::uint64_t block = first; block < last; ++block) {
      map_.block(block, pieces);
      add_chunk(sample, pieces, base_, target_, 0, kBlockElements);
    }
    return sample;
  }
  const std::uint64_t chunks = run.elements(first, last) / kChunkElements;
  for (std::uint64_t i = 0; i < kSampleChunks; ++i) {
    const std::uint64_t begin = chunks * i / kSampleChunks;
    const std::uint64_t chunk = begin + mix(i) % (chunks * (i + 1) / kSampleChunks - begin);
    map_.block(first + chunk / kChunksOfABlock, pieces);
    add_chunk(sample, pieces, base_, target_, static_cast<std::uint32_t>(chunk % kChunksOfABlock * kChunkElements), kChunkElements);
  }
  return sample;
}

}  // namespace sparcl::codec
