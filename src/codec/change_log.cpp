#include "src/codec/change_log.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/codec/state_hash.hpp"

namespace sparcl::codec {
namespace {

// Good as long as `pieces`.
WritableBlockView view_of(const BlockMap& map, std::uint64_t block,
                          std::span<std::byte* const> arrays, std::vector<Piece>& pieces) {
  const DataType datatype = map.block(block, pieces);
  return {shape_of(datatype, pieces), pieces, arrays};
}

}  // namespace

void ChangeLog::reserve(std::size_t blocks, std::size_t bytes) {
  entries_.reserve(entries_.size() + blocks);
  bytes_.reserve(bytes_.size() + bytes);
}

void ChangeLog::add(std::uint64_t index, std::size_t width, Positions positions,
                    std::span<const std::byte> values) {
  const std::size_t at = bytes_.size();
  const std::size_t value_bytes = padded(positions.size() * width);
  bytes_.resize(at + value_bytes + positions.size_bytes());
  std::memcpy(bytes_.data() + at, values.data(), positions.size() * width);
  std::memcpy(bytes_.data() + at + value_bytes, positions.data(), positions.size_bytes());
  entries_.push_back({index, at, static_cast<std::uint32_t>(positions.size()),
                      static_cast<std::uint32_t>(value_bytes)});
  changes_ += positions.size();
}

void ChangeLog::append(ChangeLog&& others) {
  if (entries_.empty()) return void(*this = std::move(others));
  const std::size_t at = bytes_.size();
  bytes_.insert(bytes_.end(), others.bytes_.begin(), others.bytes_.end());
  for (Entry entry : others.entries_) {
    entry.at += at;
    entries_.push_back(entry);
  }
  changes_ += others.changes_;
}

void ChangeLog::make_room(const BlockMap& map, Room& room) const {
  std::size_t most = room.values.size();
  for (const Entry& entry : entries_) {
    for (std::vector<Piece>& pieces : room.pieces) (void)map.block(entry.index, pieces);
    most = std::max<std::size_t>(most, entry.value_bytes);
  }
  room.values.resize(most);
}

// Looks one block ahead, so that its lines are prefetched while the previous block is processed.
void ChangeLog::exchange(std::size_t first, std::size_t last, const BlockMap& map,
                         std::span<std::byte* const> held, const kernels::KernelSet& kernels,
                         Room& room) {
  const auto view = [&](std::size_t i) {
    return view_of(map, entries_[i].index, held, room.pieces[i % 2]);
  };
  WritableBlockView next_view;
  if (first < last) next_view = view(first);
  for (std::size_t i = first; i < last; ++i) {
    const WritableBlockView own_view = next_view;
    kernels::Upcoming next;
    if (i + 1 < last) {
      next_view = view(i + 1);
      next = upcoming(next_view, block_of(entries_[i + 1]).positions);
    }
    codec::exchange(kernels, own_view, block_of(entries_[i]).positions,
                    bytes_.data() + entries_[i].at, next);
    SPARCL_FAILPOINT("update.staged_write");
  }
}

Hash128 ChangeLog::exchange_and_hash(const BlockMap& map, std::span<std::byte* const> held,
                                     const kernels::KernelSet& kernels, Room& room) {
  Hash128 added;
  for (const Entry& entry : entries_) {
    const WritableBlockView view = view_of(map, entry.index, held, room.pieces[0]);
    const Positions positions = block_of(entry).positions;
    std::byte* values = bytes_.data() + entry.at;
    std::memcpy(room.values.data(), values, entry.value_bytes);
    codec::exchange(kernels, view, positions, values);
    const auto hashes = changes_hash(kernels, view.shape.datatype, positions, values,
                                     room.values.data(), entry.index);
    added = added + hashes.new_values - hashes.old_values;
  }
  return added;
}

Hash128 ChangeLog::added(std::size_t i, const BlockMap& map, std::span<std::byte* const> held,
                         const kernels::KernelSet& kernels, Room& room) const {
  const Block block = block_of(entries_[i]);
  const WritableBlockView view = view_of(map, block.index, held, room.pieces[0]);
  room.values.resize(std::max<std::size_t>(room.values.size(), entries_[i].value_bytes));
  gather(kernels, view, block.positions, room.values.data());
  const auto hashes = changes_hash(kernels, view.shape.datatype, block.positions, block.values,
                                   room.values.data(), block.index);
  return hashes.new_values - hashes.old_values;
}

void ChangeLog::copy(const BlockMap& map, std::span<std::byte* const> from,
                     std::span<std::byte* const> to, const kernels::KernelSet& kernels,
                     Room& room) const {
  for (const Entry& entry : entries_) {
    const Positions positions = block_of(entry).positions;
    gather(kernels, view_of(map, entry.index, from, room.pieces[0]), positions, room.values.data());
    scatter(kernels, view_of(map, entry.index, to, room.pieces[0]), positions, room.values.data());
  }
}

void ChangeLog::finish() {
  std::ranges::sort(entries_, {}, &Entry::index);
  entries_.shrink_to_fit();
  bytes_.shrink_to_fit();
}

ChangeLog::Block ChangeLog::block_of(const Entry& entry) const {
  const std::byte* values = bytes_.data() + entry.at;
  return {entry.index,
          {reinterpret_cast<const std::uint16_t*>(values + entry.value_bytes), entry.count},
          values};
}

ChangeLog::Block ChangeLog::operator[](std::size_t i) const { return block_of(entries_[i]); }

bool ChangeLog::find(std::uint64_t index, Block& block) const {
  const auto found = std::ranges::lower_bound(entries_, index, {}, &Entry::index);
  if (found == entries_.end() || found->index != index) return false;
  block = block_of(*found);
  return true;
}

}  // namespace sparcl::codec
