#pragma once
// The sender's tables of classes: one for each region of a run, chosen by a sample of it, kept where it fits the next region.

#include <cstdint>
#include <deque>
#include <span>
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

class ClassRegions {
 public:
  static constexpr std::uint64_t kRegionBlocks = 64 * kSuperBlocks;  // 16 Mi elements, so that large tensors of different layers
                                                                     // can have different tables. Heuristic

  // `always`: a table even where one class alone is estimated to be as good.
  ClassRegions(const BlockMap& map, const ArrayInput& base, const ArrayInput& target, bool always)
      : map_(map), base_(base), target_(target), always_(always) {}

  // The table for a superblock; ask in ascending order. nullptr: classes gain nothing there. Every array there has a base. Valid
  // as long as this.
  const RegionTable* table_for(const Superblock& superblock);

 private:
  void choose(const BlockMap::BlockRun& run, std::uint64_t first);
  ClassSample take_sample(const BlockMap::BlockRun& run, std::uint64_t first, std::uint64_t last) const;

  const BlockMap& map_;
  const ArrayInput& base_;
  const ArrayInput& target_;
  bool always_;
  std::uint64_t region_end_ = 0;    // the first block after it
  std::deque<RegionTable> tables_;  // all so far: what is being coded points to them
  bool has_table_ = false;          // for this region: the last one
};

}  // namespace sparcl::codec
