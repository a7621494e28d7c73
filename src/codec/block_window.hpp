#pragma once
// The blocks of a state that a receiver holds, if it holds a part of the state only.

#include <cstdint>
#include <vector>

#include "src/codec/block_map.hpp"

namespace sparcl::codec {

class BlockWindow {
 public:
  // No block. The map outlives it.
  explicit BlockWindow(const BlockMap& map);
  explicit BlockWindow(BlockMap&&) = delete;

  // Adds the blocks of elements [first, first + count) of an array; with them the other blocks of
  // their superblocks, whose class blocks count ranks in all of them.
  void add(std::uint32_t array, std::uint64_t first, std::uint64_t count);

  bool has(std::uint64_t block) const { return (bits_[block / 64] >> block % 64 & 1) != 0; }
  // How many of the blocks [first, last) it has.
  std::uint64_t count(std::uint64_t first, std::uint64_t last) const;
  bool has_any(std::uint64_t first, std::uint64_t last) const;
  bool has_all(std::uint64_t first, std::uint64_t last) const {
    return count(first, last) == last - first;
  }
  std::uint64_t block_count() const { return count_; }
  // Of the elements of its blocks.
  std::uint64_t byte_count() const { return bytes_; }

 private:
  void add_block(std::uint64_t block, const BlockMap::BlockRun& run);

  const BlockMap& map_;
  std::vector<std::uint64_t> bits_;
  std::uint64_t count_ = 0, bytes_ = 0;
};

}  // namespace sparcl::codec
