#pragma once
// The values of elements that an update changes. Once it is applied, the old ones: the way back.
// Before that, where an update is kept as its blocks are checked, the new ones: one exchange with
// what is held applies it, and leaves the way back.

#include <array>
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
    const std::byte* values;
  };

  // Room for so much more; add() then allocates nothing.
  void reserve(std::size_t blocks, std::size_t bytes);
  static std::size_t bytes_of(std::size_t changes, std::size_t width) {
    return padded(changes * width) + changes * sizeof(std::uint16_t);
  }
  void add(std::uint64_t index, std::size_t width, Positions positions,
           std::span<const std::byte> values);
  // Of other blocks.
  void append(ChangeLog&& others);
  // After the last one: brings the blocks into their order, and gives room back that was not
  // needed.
  void finish();

  struct Room {
    std::array<std::vector<Piece>, 2> pieces;
    std::vector<std::byte> values;
  };
  void make_room(const BlockMap& map, Room& room) const;

  // After make_room(), without allocations: the values here and those held change places. A second
  // exchange takes the first one back.
  void exchange(const BlockMap& map, std::span<std::byte* const> held,
                const kernels::KernelSet& kernels, Room& room) {
    exchange(0, size(), map, held, kernels, room);
  }
  // The same of blocks [first, last) of the list.
  void exchange(std::size_t first, std::size_t last, const BlockMap& map,
                std::span<std::byte* const> held, const kernels::KernelSet& kernels, Room& room);
  // The same, and what it adds to the state's hash.
  Hash128 exchange_and_hash(const BlockMap& map, std::span<std::byte* const> held,
                            const kernels::KernelSet& kernels, Room& room);

  // After an exchange: what the changes of block i have added to the state's hash.
  Hash128 added(std::size_t i, const BlockMap& map, std::span<std::byte* const> held,
                const kernels::KernelSet& kernels, Room& room) const;

  // After make_room(): the elements that were replaced, as `from` has them, go to where they lie in
  // `to`.
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
  static constexpr std::size_t padded(std::size_t bytes) {
    return (bytes + 1) & ~std::size_t{1};
  }  // positions stay aligned
  Block block_of(const Entry& entry) const;

  std::vector<Entry> entries_;
  std::vector<std::byte> bytes_;  // of each block the values, and behind them their positions
  std::uint64_t changes_ = 0;
};

}  // namespace sparcl::codec
