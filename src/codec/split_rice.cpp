#include "src/codec/split_rice.hpp"

#include <algorithm>

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kMaxMarks = 65536;  // a list that keeps to rice_shift() has no more bits: marks are u16

void make_room(std::vector<std::uint16_t>& list, std::size_t count) {
  if (list.size() < count + kernels::kPositionSlack) list.resize(count + kernels::kPositionSlack);
}

}  // namespace

unsigned rice_shift(std::uint64_t span, std::uint64_t count) {
  unsigned shift = 0;
  while (count > 0 && (64 * count) << shift < 31 * span) ++shift;
  return shift;
}

void RiceList::prepare(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions, std::uint64_t span) {
  count = positions.size();
  shift = rice_shift(span, count);
  make_room(remainders, count);
  make_room(marks, count);
  kernels.split_gaps(positions.data(), count, shift, remainders.data(), marks.data());
}

bool RiceListReader::read_planes(const kernels::ListKernels& kernels, BitCursor& bits, std::uint64_t span, std::size_t count) {
  span_ = span;
  count_ = count;
  shift_ = rice_shift(span, count);
  const std::uint64_t plane_bits = std::uint64_t{shift_} * count;
  if (bits.left() < plane_bits) return false;
  make_room(remainders_, count);
  kernels.unpack_planes(bits.bytes, bits.at, count, shift_, remainders_.data());
  bits.at += plane_bits;
  return true;
}

bool RiceListReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint16_t* positions) {
  if (count_ == 0) return true;
  make_room(marks_, count_);
  if (kernels.find_marks(bits.bytes, bits.at, std::min(bits.left(), kMaxMarks), count_, marks_.data()) < count_) return false;
  bits.at += std::uint64_t{marks_[count_ - 1]} + 1;
  return kernels.join_gaps(remainders_.data(), marks_.data(), count_, shift_, positions) < span_;
}

}  // namespace sparcl::codec
