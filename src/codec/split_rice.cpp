#include "src/codec/split_rice.hpp"

#include <algorithm>

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kMaxMarks = 65536;  // a list that keeps to rice_shift() has no more bits: marks are u16

}  // namespace

unsigned rice_shift(std::uint64_t span, std::uint64_t count) {
  unsigned shift = 0;
  while (count > 0 && (64 * count) << shift < 31 * span) ++shift;
  return shift;
}

void RiceList::prepare(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions, std::uint64_t span) {
  count = positions.size();
  shift = rice_shift(span, count);
  kernels.split_gaps(positions.data(), count, shift, remainders.need(count + kernels::kPositionSlack),
                     marks.need(count + kernels::kPositionSlack));
}

bool RiceListReader::read_planes(const kernels::ListKernels& kernels, BitCursor& bits, std::uint64_t span, std::size_t count) {
  span_ = span;
  count_ = count;
  shift_ = rice_shift(span, count);
  const std::uint64_t plane_bits = std::uint64_t{shift_} * count;
  if (bits.left() < plane_bits) return false;
  kernels.unpack_planes(bits.bytes, bits.at, count, shift_, remainders_.need(count + kernels::kPositionSlack));
  bits.at += plane_bits;
  return true;
}

bool RiceListReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint16_t* positions) {
  if (count_ == 0) return true;
  std::uint16_t* marks = marks_.need(count_ + kernels::kPositionSlack);
  if (kernels.find_marks(bits.bytes, bits.at, std::min(bits.left(), kMaxMarks), count_, marks) < count_) return false;
  bits.at += std::uint64_t{marks[count_ - 1]} + 1;
  return kernels.join_gaps(remainders_.data(), marks, count_, shift_, positions) < span_;
}

bool ends_cleanly(const BitCursor& bits) {
  if (bits.at > bits.limit || bits.left() >= 8) return false;
  return bits.left() == 0 || kernels::low_bits(kernels::load_bits(bits.bytes, bits.at), bits.left()) == 0;
}

}  // namespace sparcl::codec
