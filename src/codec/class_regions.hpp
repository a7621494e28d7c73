#pragma once
// The sender's tables of classes: one for each region of a run, chosen by a sample of it, kept where it fits the next region.

#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/block_map.hpp"
#include "src/codec/class_choice.hpp"
#include "src/codec/superblock.hpp"

namespace sparcl::codec {

class ClassRegions {
 public:
  // `always`: a table even where one class alone is estimated to be as good.
  ClassRegions(const BlockMap& map, std::span<const std::byte* const> base, std::span<const std::byte* const> target, bool always)
      : map_(map), base_(base), target_(target), always_(always) {}

  // The table for a superblock; ask in ascending order. nullptr: classes gain nothing there. Every array there has a base. Valid
  // until the next call.
  const ClassTable* table_for(const Superblock& superblock);
  // Whether table_for()'s last has not been written to the stream; then its share of the bytes for one superblock of its region.
  bool must_write() const { return !written_; }
  std::size_t share_bytes() const;
  void note_written() { written_ = true; }

 private:
  void choose(const BlockMap::BlockRun& run, std::uint64_t first);
  ClassSample take_sample(const BlockMap::BlockRun& run, std::uint64_t first, std::uint64_t last) const;

  const BlockMap& map_;
  std::span<const std::byte* const> base_;
  std::span<const std::byte* const> target_;
  bool always_;
  std::uint64_t region_end_ = 0;  // the first block after it
  std::uint64_t region_superblocks_ = 1;
  ClassTable table_;
  bool has_table_ = false;  // for this region
  bool written_ = false;    // table_ is what the stream's last table says
};

}  // namespace sparcl::codec
