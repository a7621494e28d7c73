#pragma once
// The values of elements that an update changes. Before the update is applied, they are the new
// ones, if changes are kept while blocks are checked: one exchange with the held values then
// applies the update. Afterwards they are the old values: the rollback log.

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

  // Reserves room; add() then allocates nothing.
  void reserve(std::size_t blocks, std::size_t bytes);
  static std::size_t bytes_of(std::size_t changes, std::size_t width) {
    return padded(changes * width) + changes * sizeof(std::uint16_t);
  }
  void add(std::uint64_t index, std::size_t width, Positions positions,
           std::span<const std::byte> values);
  // Appends the log of other blocks.
  void append(ChangeLog&& others);
  // Called after the last add(): sorts the blocks, and frees unused room.
  void finish();

  struct Room {
    std::array<std::vector<Piece>, 2> pieces;
    std::vector<std::byte> values;
  };
  void make_room(const BlockMap& map, Room& room) const;

  // After make_room(), without allocations: swaps the values here with the held ones. A second
  // exchange undoes the first.
  void exchange(const BlockMap& map, std::span<std::byte* const> held,
                const kernels::KernelSet& kernels, Room& room) {
    exchange(0, size(), map, held, kernels, room);
  }
  // The same for blocks [first, last) of the list.
  void exchange(std::size_t first, std::size_t last, const BlockMap& map,
                std::span<std::byte* const> held, const kernels::KernelSet& kernels, Room& room);
  // The same, and returns the change of the state's hash.
  Hash128 exchange_and_hash(const BlockMap& map, std::span<std::byte* const> held,
                            const kernels::KernelSet& kernels, Room& room);

  // After an exchange: the contribution of block i's changes to the state's hash.
  Hash128 added(std::size_t i, const BlockMap& map, std::span<std::byte* const> held,
                const kernels::KernelSet& kernels, Room& room) const;

  // After make_room(): copies the replaced elements from `from` to their positions in `to`.
  void copy(const BlockMap& map, std::span<std::byte* const> from, std::span<std::byte* const> to,
            const kernels::KernelSet& kernels, Room& room) const;

  std::size_t bytes() const { return bytes_.size() + entries_.size() * sizeof(Entry); }
  std::uint64_t changes() const { return changes_; }
  std::size_t size() const { return entries_.size(); }
  Block operator[](std::size_t i) const;
  // Block `index`, if the log has elements of it. After finish().
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
  std::vector<std::byte> bytes_;  // for each block the values, followed by their positions
  std::uint64_t changes_ = 0;
};

}  // namespace sparcl::codec
