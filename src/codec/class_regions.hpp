#pragma once
// The sender's tables of classes: one for each region of a run. A table is chosen by a sample of
// its region, and kept if it fits the next region.

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
  std::uint64_t number = 0;     // in the order of choice, from 1 on
  std::size_t share_bytes = 0;  // of its section, charged to one superblock of the region
};

// A part of an array that belongs to a region's sample.
struct SamplePart {
  std::uint32_t array;
  std::uint64_t first;  // element of the array
  std::uint32_t count;  // at most kSampleElements
};
constexpr std::uint32_t kSampleElements = 2048;
// The sample of the blocks [first, last) of a run: the same parts for every sender.
std::vector<SamplePart> sample_parts(const BlockMap& map, std::uint64_t first, std::uint64_t last);

class ClassRegions {
 public:
  static constexpr std::uint64_t kRegionBlocks =
      64 * kSuperBlocks;  // 16 Mi elements, so that large tensors of different layers
                          // can have different tables. Heuristic

  // Takes a sample of the blocks [first, last) of a run.
  using TakeSample = std::function<ClassSample(std::uint64_t first, std::uint64_t last)>;

  // `always`: uses a table even if a single class is estimated to be as good. region_blocks: a
  // multiple of kSuperBlocks.
  ClassRegions(const BlockMap& map, TakeSample take_sample, bool always,
               std::uint64_t region_blocks = kRegionBlocks)
      : map_(map),
        take_sample_(std::move(take_sample)),
        always_(always),
        region_blocks_(region_blocks) {}

  // The table for a superblock; callers ask in ascending order. nullptr: classes gain nothing
  // there. Every array there has a base. Valid during the lifetime of this object.
  const RegionTable* table_for(const Superblock& superblock);

 private:
  void choose(const BlockMap::BlockRun& run, std::uint64_t first);

  const BlockMap& map_;
  TakeSample take_sample_;
  bool always_;
  std::uint64_t region_blocks_;
  std::uint64_t region_end_ = 0;    // the first block after the region
  std::deque<RegionTable> tables_;  // kept, because the blocks being coded point to them
  bool has_table_ = false;          // for this region: the last table
};

// For arrays on the host; they outlive the result.
ClassRegions::TakeSample sample_on_host(const BlockMap& map, const ArrayInput& base,
                                        const ArrayInput& target);

}  // namespace sparcl::codec
