#include "src/codec/group_encoder.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kAloneBits = 8 * 8;  // what a block has besides its positions and steps: tag, length, k, parameters, check

}  // namespace

void GroupEncoder::clear() {
  parts_.clear();
  count_ = 0;
  bits_alone_ = 0;
}

void GroupEncoder::add(std::uint64_t index, const BlockChanges& changes) {
  const BlockShape shape = changes.shape();
  datatype_ = shape.datatype;
  width_ = shape.element_bytes();
  if (in_group_.empty()) {
    positions_.resize(kMaxGroupChanges + kernels::kPositionSlack);
    in_group_.resize(kMaxGroupChanges + kernels::kPositionSlack);
  }
  if (const std::size_t bytes = kMaxGroupChanges * width_ + kernels::kValueSlackBytes; old_values_.size() < bytes) {
    old_values_.resize(bytes);
    new_values_.resize(bytes);
  }
  const std::size_t first = count_;
  const std::size_t count = changes.count;
  parts_.push_back({index, first, count});
  const auto offset = static_cast<std::uint32_t>(index - first_block()) * kBlockElements;
  const std::uint16_t* positions = changes.positions.data();
  std::copy_n(positions, count, positions_.data() + first);
  for (std::size_t i = 0; i < count; ++i) in_group_[first + i] = offset + positions[i];
  std::memcpy(old_values_.data() + first * width_, changes.old_values.data(), count * width_);
  std::memcpy(new_values_.data() + first * width_, changes.new_values.data(), count * width_);
  count_ += count;
  bits_alone_ += kAloneBits + about_list_bits(shape.elements, count);
}

std::size_t GroupEncoder::plan(std::uint32_t elements, const BlockMode* only, bool thorough) {
  const std::span<const std::uint32_t> positions(in_group_.data(), count_);
  list_.prepare(kernels_.lists, positions, elements);
  steps_.prepare(kernels_, datatype_, old_values_.data(), new_values_.data(), count_);
  std::byte varint[kMaxVarintBytes];
  std::size_t head_bytes = 1 + store_varint(varint, count_) + steps_.head_bytes();
  std::uint64_t bits = list_.bits();
  is_two_level_ =
      only != &kFlatGroupMode && two_level_.prepare(kernels_.lists, positions, elements,
                                                    only != nullptr ? TwoLevelList::kAnySize : bits, thorough || only != nullptr);
  if (is_two_level_) {
    bits = two_level_.bits();
    head_bytes += two_level_.head_bytes();
  }
  // Like with like: the exact bits only where there is no estimate.
  const std::uint64_t about = is_two_level_ ? bits : about_list_bits(elements, count_);
  const bool is_smaller = about + 8 * head_bytes < bits_alone_ && steps_.bits() <= 8 * count_ * width_;
  if (only == nullptr && !is_smaller) return kCannot;
  return head_bytes + static_cast<std::size_t>((bits + steps_.bits() + 7) / 8);
}

void GroupEncoder::write(std::byte* flags, std::byte* out) const {
  const kernels::ListKernels& lists = kernels_.lists;
  *out++ = static_cast<std::byte>(last_block() - first_block());
  out += store_varint(out, count_);
  if (is_two_level_) out = two_level_.write_head(out);
  kernels::BitWriter bits{steps_.write_head(out)};
  if (is_two_level_) {
    two_level_.write_planes(lists, flags, bits);
  } else {
    list_.write_planes(lists, bits);
  }
  steps_.write_planes(bits);
  if (is_two_level_) {
    two_level_.write_unary(lists, flags, bits);
  } else {
    list_.write_unary(lists, flags, bits);
  }
  steps_.write_unary(flags, bits);
  bits.finish();
}

}  // namespace sparcl::codec
