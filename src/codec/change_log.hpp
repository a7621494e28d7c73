#pragma once
// The old values of what an update has replaced: the way back.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_view.hpp"

namespace sparcl::codec {

class ChangeLog {
 public:
  struct Block {
    std::uint64_t index;
    Positions positions;
    const std::byte* old_values;
  };

  // Room for so much more; add() then allocates nothing.
  void reserve(std::size_t blocks, std::size_t bytes);
  static std::size_t bytes_of(std::size_t changes, std::size_t width) {
    return padded(changes * width) + changes * sizeof(std::uint16_t);
  }
  void add(std::uint64_t index, std::size_t width, Positions positions, std::span<const std::byte> old_values);
  // Of other blocks.
  void append(const ChangeLog& others);
  // After the last one: brings the blocks into their order.
  void finish();

  // After finish(). Writes the old values to where they were, and keeps what they replace in their stead: a second exchange takes
  // the first one back. The result is what that adds to the state's hash. Allocates nothing after make_room().
  struct Room {
    std::vector<Piece> pieces;
    std::vector<std::byte> values;
  };
  void make_room(const BlockMap& map, Room& room) const;
  Hash128 exchange(const BlockMap& map, std::span<std::byte* const> held, const kernels::KernelSet& kernels, Room& room);

  // After make_room(): the elements that were replaced, as `from` has them, go to where they lie in `to`.
  void copy(const BlockMap& map, std::span<std::byte* const> from, std::span<std::byte* const> to,
            const kernels::KernelSet& kernels, Room& room) const;

  std::size_t bytes() const { return bytes_.size() + entries_.size() * sizeof(Entry); }
  std::uint64_t changes() const { return changes_; }
  std::size_t size() const { return entries_.size(); }
  Block operator[](std::size_t i) const;
  // Block `index`, if anything of it was replaced. After finish().
  bool find(std::uint64_t index, Block& block) const;

 private:
  struct Entry {
    std::uint64_t index;
    std::size_t at;
    std::uint32_t count;
    std::uint32_t value_bytes;
  };
  static constexpr std::size_t padded(std::size_t bytes) { return (bytes + 1) & ~std::size_t{1}; }  // positions stay aligned
  Block block_of(const Entry& entry) const;

  std::vector<Entry> entries_;
  std::vector<std::byte> bytes_;  // of each block the old values, and behind them their positions
  std::uint64_t changes_ = 0;
};

}  // namespace sparcl::codec
