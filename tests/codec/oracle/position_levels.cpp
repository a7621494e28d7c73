#include "tests/codec/oracle/position_levels.hpp"

#include <algorithm>

namespace sparcl::oracle {
namespace {

std::vector<std::uint64_t> gaps_of(const std::vector<std::uint64_t>& positions) {
  std::vector<std::uint64_t> gaps;
  std::uint64_t next = 0;
  for (const std::uint64_t position : positions) {
    gaps.push_back(position - next);
    next = position + 1;
  }
  return gaps;
}

}  // namespace

PositionLevels::PositionLevels(ByteCursor& in, std::uint64_t elements, std::uint64_t count,
                               Places places)
    : elements_(elements), count_(count), places_(places) {
  if (places == Places::kOneList) return;
  if (places == Places::kSubBlocks) {
    const std::uint64_t c = in.number(1);
    refuse_if(c < 1 || c > 15, "sub-blocks of a size that there is not");
    sub_elements_ = std::uint64_t{1} << c;
    sub_count_ = in.varint();
    refuse_if(sub_count_ < 1 || sub_count_ > count, "more sub-blocks than changes, or none");
    return;
  }
  const std::uint64_t parameters = in.number(1);
  const unsigned j = static_cast<unsigned>(parameters & 0x0f);
  short_bits_ = static_cast<unsigned>(parameters >> 4);
  refuse_if(short_bits_ > j, "short gaps with more low bits than they can have");
  min_long_ = std::uint64_t{1} << j;
  long_count_ = in.varint();
  refuse_if(long_count_ > count, "more long gaps than changes");
  refuse_if(long_count_ * min_long_ > elements - count,
            "more long gaps than elements that do not change");
}

void PositionLevels::read_planes(BitCursor& bits) {
  if (places_ == Places::kSubBlocks) return read_sub_blocks(bits);
  if (places_ == Places::kOneList) {
    short_gaps_.emplace(elements_, count_);
    short_gaps_->read_planes(bits);
    return;
  }
  which_are_long_.emplace(count_, long_count_);
  which_are_long_->read_planes(bits);
  which_are_long_->read_unary(bits);
  long_gaps_.emplace(elements_ - count_ - long_count_ * min_long_ + long_count_, long_count_);
  long_gaps_->read_planes(bits);
  long_gaps_->read_unary(bits);
  short_gaps_.emplace(elements_, min_long_ == 1 ? 0 : count_ - long_count_, short_bits_);
  short_gaps_->read_planes(bits);
}

void PositionLevels::read_sub_blocks(BitCursor& bits) {
  const std::uint64_t subs = (elements_ + sub_elements_ - 1) / sub_elements_;
  refuse_if(sub_count_ > subs, "more sub-blocks than there are");
  PositionList list(subs, sub_count_);
  list.read_planes(bits);
  list.read_unary(bits);
  for (const std::uint64_t sub : list.positions()) {
    for (std::uint64_t i = sub * sub_elements_; i < std::min(elements_, (sub + 1) * sub_elements_);
         ++i)
      listed_elements_.push_back(i);
  }
  const std::uint64_t span = listed_elements_.size();
  refuse_if(span < count_, "more changes than the sub-blocks have elements");
  short_gaps_.emplace(span, lists_unchanged() ? span - count_ : count_);
  short_gaps_->read_planes(bits);
}

void PositionLevels::read_unary(BitCursor& bits) {
  const std::uint64_t first = bits.at();
  short_gaps_->read_unary(bits);
  if (places_ != Places::kTwoLevels) return;
  refuse_if(bits.at() - first > 65536, "short gaps with more than 65,536 unary bits");
  refuse_if(positions().back() >= elements_, "a position lies past the end");
}

std::vector<std::uint64_t> PositionLevels::positions() const {
  if (places_ == Places::kOneList) return short_gaps_->positions();
  if (places_ == Places::kSubBlocks) {
    std::vector<bool> is_listed(listed_elements_.size());
    for (const std::uint64_t i : short_gaps_->positions()) is_listed[i] = true;
    std::vector<std::uint64_t> changed;
    for (std::size_t i = 0; i < is_listed.size(); ++i) {
      if (is_listed[i] != lists_unchanged()) changed.push_back(listed_elements_[i]);
    }
    return changed;
  }
  const std::vector<std::uint64_t> long_gaps = gaps_of(long_gaps_->positions());
  std::vector<std::uint64_t> short_gaps = gaps_of(short_gaps_->positions());
  if (min_long_ == 1) short_gaps.assign(count_ - long_count_, 0);
  std::vector<std::uint64_t> positions;
  std::size_t longs = 0;
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < count_; ++i) {
    const bool is_long = longs < long_count_ && which_are_long_->positions()[longs] == i;
    const std::uint64_t gap = is_long ? long_gaps[longs] + min_long_ : short_gaps[i - longs];
    longs += is_long ? 1 : 0;
    positions.push_back(next + gap);
    next = positions.back() + 1;
  }
  return positions;
}

}  // namespace sparcl::oracle
