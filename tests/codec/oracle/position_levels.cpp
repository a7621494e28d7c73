#include "tests/codec/oracle/position_levels.hpp"

#include <algorithm>

namespace sparcl::oracle {

PositionLevels::PositionLevels(ByteCursor& in, std::uint64_t elements, std::uint64_t count, bool two_levels)
    : elements_(elements), count_(count), two_levels_(two_levels) {
  if (!two_levels) return;
  const std::uint64_t parameters = in.number(1);
  refuse_if(parameters >= 0x20, "undefined bits of sub-blocks are set");
  runs_ = (parameters & 0x10) != 0;
  size_bits_ = static_cast<unsigned>(parameters & 0x0f);
  refuse_if(size_bits_ < 4 || size_bits_ > 12, "sub-blocks of a size that there is not");
  subs_ = (elements_ + (std::uint64_t{1} << size_bits_) - 1) >> size_bits_;
  listed_ = in.varint();
  refuse_if(listed_ == 0 || listed_ > subs_, "a list of sub-blocks has another length");
}

void PositionLevels::read_planes(BitCursor& bits) {
  if (two_levels_) {
    read_subs(bits);
  } else {
    active_ = {{0, elements_}};
  }
  for (const Range& range : active_) candidate_count_ += range.count;
  refuse_if(candidate_count_ < count_, "more changes than elements in active sub-blocks");
  lists_unchanged_ = two_levels_ && 2 * count_ > candidate_count_;
  list_.emplace(candidate_count_, lists_unchanged_ ? candidate_count_ - count_ : count_);
  list_->read_planes(bits);
}

void PositionLevels::read_subs(BitCursor& bits) {
  PositionList list(subs_, listed_);
  list.read_planes(bits);
  list.read_unary(bits);
  std::vector<bool> is_listed(subs_);
  for (const std::uint64_t sub : list.positions()) is_listed[sub] = true;
  bool active = false;
  for (std::uint64_t sub = 0; sub < subs_; ++sub) {
    active = runs_ ? active != is_listed[sub] : is_listed[sub];
    const std::uint64_t first = sub << size_bits_;
    if (active) active_.push_back({first, std::min(elements_, (sub + 1) << size_bits_) - first});
  }
}

// Which of the candidates change.
std::vector<std::uint64_t> PositionLevels::changed_candidates() const {
  if (!lists_unchanged_) return list_->positions();
  std::vector<std::uint64_t> changed;
  std::uint64_t next = 0;
  for (const std::uint64_t unchanged : list_->positions()) {
    for (; next < unchanged; ++next) changed.push_back(next);
    ++next;
  }
  for (; next < candidate_count_; ++next) changed.push_back(next);
  return changed;
}

std::vector<std::uint64_t> PositionLevels::positions() const {
  std::vector<std::uint64_t> positions;
  std::size_t range = 0;
  std::uint64_t before = 0;  // candidates in the ranges before this one
  for (const std::uint64_t candidate : changed_candidates()) {
    while (candidate - before >= active_[range].count) before += active_[range++].count;
    positions.push_back(active_[range].first + candidate - before);
  }
  return positions;
}

}  // namespace sparcl::oracle
