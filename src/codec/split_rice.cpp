#include "src/codec/split_rice.hpp"

#include <algorithm>
#include <bit>

namespace sparcl::codec {
namespace {

constexpr unsigned kMostShift = 16;         // of remainders of 16 bits; blocks by themselves need 15
constexpr std::uint64_t kMaxMarks = 65536;  // a list that keeps to rice_shift() has no more bits: marks are u16

}  // namespace

unsigned rice_shift(std::uint64_t span, std::uint64_t count) {
  const std::uint64_t least = 64 * count;
  const std::uint64_t most = 31 * span;
  if (count == 0 || least >= most) return 0;
  const auto shift = static_cast<unsigned>(std::bit_width(most) - std::bit_width(least));  // both as wide then
  return std::min(kMostShift, shift + (least << shift < most ? 1 : 0));
}

std::uint64_t least_list_bits(std::uint64_t span, std::uint64_t count, std::uint64_t last) {
  if (count == 0) return 0;
  const unsigned shift = rice_shift(span, count);
  const std::uint64_t gaps = last + 1 - count;
  const std::uint64_t most_remainders = count * ((std::uint64_t{1} << shift) - 1);
  return count * (shift + 1) + ((gaps - std::min(gaps, most_remainders)) >> shift);
}

// Remainders are taken to be half their most.
std::uint64_t about_list_bits(std::uint64_t span, std::uint64_t count) {
  if (count == 0) return 0;
  const unsigned shift = rice_shift(span, count);
  const std::uint64_t gaps = span - count;
  const std::uint64_t remainders = count * ((std::uint64_t{1} << shift) - 1) / 2;
  return count * (shift + 1) + ((gaps - std::min(gaps, remainders)) >> shift);
}

void RiceList::prepare_shifted(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions, unsigned own_shift) {
  count = positions.size();
  shift = own_shift;
  kernels.split_gaps(positions.data(), count, shift, remainders.need(count + kernels::kPositionSlack),
                     marks.need(count + kernels::kPositionSlack));
}

void RiceList::prepare_shifted(const kernels::ListKernels& kernels, std::span<const std::uint32_t> positions, unsigned own_shift) {
  count = positions.size();
  shift = own_shift;
  kernels.split_wide_gaps(positions.data(), count, shift, remainders.need(count + kernels::kPositionSlack),
                          marks.need(count + kernels::kPositionSlack));
}

bool RiceListReader::read_shifted_planes(const kernels::ListKernels& kernels, BitCursor& bits, std::uint64_t span,
                                         std::size_t count, unsigned shift) {
  span_ = span;
  count_ = count;
  shift_ = shift;
  const std::uint64_t plane_bits = std::uint64_t{shift_} * count;
  if (bits.left() < plane_bits) return false;
  kernels.unpack_planes(bits.bytes, bits.at, count, shift_, remainders_.need(count + kernels::kPositionSlack));
  bits.at += plane_bits;
  return true;
}

bool RiceListReader::find_marks(const kernels::ListKernels& kernels, BitCursor& bits) {
  std::uint16_t* marks = marks_.need(count_ + kernels::kPositionSlack);
  if (kernels.find_marks(bits.bytes, bits.at, std::min(bits.left(), kMaxMarks), count_, marks) < count_) return false;
  bits.at += std::uint64_t{marks[count_ - 1]} + 1;
  return true;
}

bool RiceListReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint16_t* positions) {
  if (count_ == 0) return true;
  return find_marks(kernels, bits) && kernels.join_gaps(remainders_.data(), marks_.data(), count_, shift_, positions) < span_;
}

bool RiceListReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint32_t* positions) {
  if (count_ == 0) return true;
  return find_marks(kernels, bits) && kernels.join_wide_gaps(remainders_.data(), marks_.data(), count_, shift_, positions) < span_;
}

bool ends_cleanly(const BitCursor& bits) {
  if (bits.at > bits.limit || bits.left() >= 8) return false;
  return bits.left() == 0 || kernels::low_bits(kernels::load_bits(bits.bytes, bits.at), bits.left()) == 0;
}

}  // namespace sparcl::codec
