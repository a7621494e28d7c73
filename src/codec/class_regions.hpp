#pragma once
// The sender's tables of classes: one for each region of a run, chosen by a sample of it, kept
// where it fits the next region.

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/class_choice.hpp"
#include "src/codec/superblock.hpp"

namespace sparcl::codec {

struct RegionTable {
  ClassTable table;
  std::uint64_t number = 0;     // in the order in which they were chosen, from 1 on
  std::size_t share_bytes = 0;  // of its section, for one superblock of the region
};

// A part of an array, which is part of a region's sample.
struct SamplePart {
  std::uint32_t array;
  std::uint64_t first;  // element of the array
  std::uint32_t count;  // at most kSampleElements
};
constexpr std::uint32_t kSampleElements = 2048;
// Of the blocks [first, last) of a run: the same parts for every sender.
std::vector<SamplePart> sample_parts(const BlockMap& map, std::uint64_t first, std::uint64_t last);

class ClassRegions {
 public:
  static constexpr std::uint64_t kRegionBlocks =
      64 * kSuperBlocks;  // 16 Mi elements, so that large tensors of different layers
                          // can have different tables. Heuristic

  // What a sample of the blocks [first, last) of a run says.
  using TakeSample = std::function<ClassSample(std::uint64_t first, std::uint64_t last)>;

  // `always`: a table even where one class alone is estimated to be as good. region_blocks: a
  // multiple of kSuperBlocks.
  ClassRegions(const BlockMap& map, TakeSample take_sample, bool always,
               std::uint64_t region_blocks = kRegionBlocks)
      : map_(map),
        take_sample_(std::move(take_sample)),
        always_(always),
        region_blocks_(region_blocks) {}

  // The table for a superblock; ask in ascending order. nullptr: classes gain nothing there. Every
  // array there has a base. Valid as long as this.
  const RegionTable* table_for(const Superblock& superblock);

 private:
  void choose(const BlockMap::BlockRun& run, std::uint64_t first);

  const BlockMap& map_;
  TakeSample take_sample_;
  bool always_;
  std::uint64_t region_blocks_;
  std::uint64_t region_end_ = 0;    // the first block after it
  std::deque<RegionTable> tables_;  // all so far: what is being coded points to them
  bool has_table_ = false;          // for this region: the last one
};

// Of arrays on the host; they outlive it.
ClassRegions::TakeSample sample_on_host(const BlockMap& map, const ArrayInput& base,
                                        const ArrayInput& target);

}  // namespace sparcl::codec
