#include "src/codec/change_log.hpp"

#include <algorithm>
#include <cstring>

namespace sparcl::codec {

void ChangeLog::reserve(std::size_t blocks, std::size_t bytes) {
  entries_.reserve(entries_.size() + blocks);
  bytes_.reserve(bytes_.size() + bytes);
}

void ChangeLog::add(std::uint64_t index, std::size_t width, Positions positions, std::span<const std::byte> old_values) {
  const std::size_t at = bytes_.size();
  const std::size_t value_bytes = padded(positions.size() * width);
  bytes_.resize(at + value_bytes + positions.size_bytes());
  std::memcpy(bytes_.data() + at, old_values.data(), positions.size() * width);
  std::memcpy(bytes_.data() + at + value_bytes, positions.data(), positions.size_bytes());
  entries_.push_back({index, at, static_cast<std::uint32_t>(positions.size()), static_cast<std::uint32_t>(value_bytes)});
  changes_ += positions.size();
}

void ChangeLog::finish() { std::ranges::sort(entries_, {}, &Entry::index); }

ChangeLog::Block ChangeLog::block_of(const Entry& entry) const {
  const std::byte* values = bytes_.data() + entry.at;
  return {entry.index, {reinterpret_cast<const std::uint16_t*>(values + entry.value_bytes), entry.count}, values};
}

ChangeLog::Block ChangeLog::operator[](std::size_t i) const { return block_of(entries_[i]); }

bool ChangeLog::find(std::uint64_t index, Block& block) const {
  const auto found = std::ranges::lower_bound(entries_, index, {}, &Entry::index);
  if (found == entries_.end() || found->index != index) return false;
  block = block_of(*found);
  return true;
}

}  // namespace sparcl::codec
