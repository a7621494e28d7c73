#include "src/codec/split_rice.hpp"

#include <algorithm>
#include <bit>

namespace sparcl::codec {
namespace {

// Marks are u16. A list that keeps to gap_divisor() has no more bits. If its shift is sent, more
// are an error (docs/reference/wire-format.md).
constexpr std::uint64_t kMaxMarks = 65536;

}  // namespace

std::uint64_t min_list_bits(std::uint64_t span, std::uint64_t count, std::uint64_t last) {
  if (count == 0) return 0;
  const GapDivisor divisor = gap_divisor(span, count);
  const std::uint64_t gaps = last + 1 - count;
  const std::uint64_t max_low = count * ((std::uint64_t{1} << divisor.shift) - 1);
  return kernels::fixed_list_bits(count, divisor) +
         divisor.quotient(gaps - std::min(gaps, max_low));
}

void RiceList::prepare_divided(const kernels::ListKernels& kernels,
                               std::span<const std::uint16_t> positions, GapDivisor by) {
  count = positions.size();
  divisor = by;
  trits = kernels.split_gaps(positions.data(), count, divisor,
                             remainders.need(count + kernels::kPositionSlack),
                             marks.need(count + kernels::kPositionSlack));
}

void RiceList::prepare_divided(const kernels::ListKernels& kernels,
                               std::span<const std::uint32_t> positions, GapDivisor by) {
  count = positions.size();
  divisor = by;
  trits = kernels.split_wide_gaps(positions.data(), count, divisor,
                                  remainders.need(count + kernels::kPositionSlack),
                                  marks.need(count + kernels::kPositionSlack));
}

bool RiceListReader::read_divided_planes(const kernels::ListKernels& kernels, BitCursor& bits,
                                         std::uint64_t span, std::size_t count,
                                         GapDivisor divisor) {
  span_ = span;
  count_ = count;
  divisor_ = divisor;
  const std::uint64_t plane_bits = std::uint64_t{divisor_.shift} * count;
  if (bits.left() < plane_bits) return false;
  std::uint16_t* remainders = remainders_.need(count + kernels::kPositionSlack);
  kernels.unpack_planes(bits.bytes, bits.at, count, divisor_.shift, remainders);
  bits.at += plane_bits;
  if (!divisor_.thirds) return true;
  const std::uint64_t used =
      kernels.unpack_trits(bits.bytes, bits.at, bits.left(), count, divisor_.shift, remainders);
  if (used == kernels::kNoTrits) return false;
  bits.at += used;
  return true;
}

bool RiceListReader::find_marks(const kernels::ListKernels& kernels, BitCursor& bits) {
  std::uint16_t* marks = marks_.need(count_ + kernels::kPositionSlack);
  if (kernels.find_marks(bits.bytes, bits.at, std::min(bits.left(), kMaxMarks), count_, marks) <
      count_)
    return false;
  bits.at += std::uint64_t{marks[count_ - 1]} + 1;
  return true;
}

bool RiceListReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits,
                                std::uint16_t* positions) {
  if (count_ == 0) return true;
  return find_marks(kernels, bits) &&
         kernels.join_gaps(remainders_.data(), marks_.data(), count_, divisor_, positions) < span_;
}

bool RiceListReader::read_unary(const kernels::ListKernels& kernels, BitCursor& bits,
                                std::uint32_t* positions) {
  if (count_ == 0) return true;
  return find_marks(kernels, bits) && kernels.join_wide_gaps(remainders_.data(), marks_.data(),
                                                             count_, divisor_, positions) < span_;
}

bool ends_cleanly(const BitCursor& bits) {
  if (bits.at > bits.limit || bits.left() >= 8) return false;
  return bits.left() == 0 ||
         kernels::low_bits(kernels::load_bits(bits.bytes, bits.at), bits.left()) == 0;
}

}  // namespace sparcl::codec
