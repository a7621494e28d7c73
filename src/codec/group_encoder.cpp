#include "src/codec/group_encoder.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kAloneBits =
    8 * 8;  // bytes of a block besides its positions and steps: tag, length, k, parameters, check
constexpr std::size_t kSomeChanges = 64;

// Estimated bits of the positions if the block is coded alone. Clusters are not examined: a group
// gains by them as its blocks do. A group of blocks with masks of different sizes is different. It
// has the smallest size, so these blocks may be better alone.
std::uint64_t bits_alone(const BlockChanges& changes) {
  const std::uint32_t elements = changes.shape().elements;
  const unsigned shift = whole_sub_shift(
      std::span<const std::uint16_t>(changes.positions.data(), changes.count), elements);
  const auto count = static_cast<std::uint32_t>(changes.count);
  return about_list_bits(subs_of(elements, shift), subs_of(count, shift));
}

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
  if (const std::size_t bytes = kMaxGroupChanges * width_ + kernels::kValueSlackBytes;
      old_values_.size() < bytes) {
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
  bits_alone_ += kAloneBits + bits_alone(changes);
}

// Sets mode_ and prepares its list.
void GroupEncoder::choose_list(std::span<const std::uint32_t> positions, std::uint32_t elements,
                               const BlockMode* only, bool thorough) {
  using Look = BlockSparseList::Look;
  const kernels::ListKernels& lists = kernels_.lists;
  const bool is_asked = only != nullptr;
  const auto most = [&] { return is_asked ? TwoLevelList::kAnySize : list_bits(); };
  const bool may_be_sparse = !is_asked || only == &kBlockSparseMode;
  // Whole sub-blocks take fewer bits than all but a few of their elements: then the other list is
  // not needed.
  const bool is_whole =
      may_be_sparse && !thorough && count_ >= kSomeChanges &&
      block_sparse_.prepare(lists, positions, elements, TwoLevelList::kAnySize, Look::kWhole);
  mode_ = is_whole ? &kBlockSparseMode : &kFlatGroupMode;
  if (!is_whole) list_.prepare(lists, positions, elements);
  if (!is_asked || only == &kTwoLevelGroupMode) {
    if (two_level_.prepare(lists, positions, elements, most(), thorough || is_asked))
      mode_ = &kTwoLevelGroupMode;
  }
  if (may_be_sparse && !is_whole) {
    const Look look = is_asked || thorough           ? Look::kThorough
                      : mode_ == &kTwoLevelGroupMode ? Look::kAlsoPartly
                                                     : Look::kWhole;
    if (block_sparse_.prepare(lists, positions, elements, most(), look)) mode_ = &kBlockSparseMode;
  }
}

std::size_t GroupEncoder::list_head_bytes() const {
  if (mode_ == &kTwoLevelGroupMode) return two_level_.head_bytes();
  return mode_ == &kBlockSparseMode ? block_sparse_.head_bytes() : 0;
}

std::uint64_t GroupEncoder::list_bits() const {
  if (mode_ == &kTwoLevelGroupMode) return two_level_.bits();
  return mode_ == &kBlockSparseMode ? block_sparse_.bits() : list_.bits();
}

std::size_t GroupEncoder::plan(std::uint32_t elements, const BlockMode* only, bool thorough) {
  choose_list({in_group_.data(), count_}, elements, only, thorough);
  steps_.prepare(kernels_, datatype_, old_values_.data(), new_values_.data(), count_);
  std::byte varint[kMaxVarintBytes];
  const std::size_t head_bytes =
      1 + store_varint(varint, count_) + list_head_bytes() + steps_.head_bytes();
  // Compares estimates with estimates: the exact bits only if there is no estimate.
  const std::uint64_t about =
      mode_ == &kFlatGroupMode ? about_list_bits(elements, count_) : list_bits();
  const bool is_smaller =
      about + 8 * head_bytes < bits_alone_ && steps_.bits() <= 8 * count_ * width_;
  if (only == nullptr && !is_smaller) return kCannot;
  return head_bytes + static_cast<std::size_t>((list_bits() + steps_.bits() + 7) / 8);
}

void GroupEncoder::write(std::byte* out) const {
  const kernels::ListKernels& lists = kernels_.lists;
  *out++ = static_cast<std::byte>(last_block() - first_block());
  out += store_varint(out, count_);
  if (mode_ == &kTwoLevelGroupMode) {
    write_lists(two_level_, two_level_.write_head(out));
  } else if (mode_ == &kBlockSparseMode) {
    write_lists(block_sparse_, block_sparse_.write_head(out));
  } else {
    kernels::BitWriter bits{steps_.write_head(out)};
    list_.write_planes(lists, bits);
    steps_.write_planes(bits);
    list_.write_unary(lists, bits);
    steps_.write_unary(bits);
    bits.finish();
  }
}

// Writes the data after the head of a list of two parts.
template <class List>
void GroupEncoder::write_lists(const List& list, std::byte* out) const {
  kernels::BitWriter bits{steps_.write_head(out)};
  list.write_planes(kernels_.lists, bits);
  steps_.write_planes(bits);
  list.write_unary(kernels_.lists, bits);
  steps_.write_unary(bits);
  bits.finish();
}

}  // namespace sparcl::codec
