#pragma once
// Lists of ascending positions as planes of remainders and one unary bitmap
// (docs/reference/wire-format.md).

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "kernels/list_estimate.hpp"
#include "src/codec/scratch.hpp"

namespace sparcl::codec {

using kernels::about_list_bits;
using kernels::gap_divisor;
using kernels::GapDivisor;
using kernels::rice_shift;

// Lower bound of the bits of a list of `count` positions below `span`, the last of which is `last`.
// It does not examine the other positions.
std::uint64_t min_list_bits(std::uint64_t span, std::uint64_t count, std::uint64_t last);

// A list that is ready to be written: its size is known before the first bit is written. Positions
// of 16 bits; or of 32 bits, if they are so few that marks are below 65,536.
struct RiceList {
  std::size_t count = 0;
  GapDivisor divisor;
  std::size_t trits = 0;  // that are not 0
  Scratch<std::uint16_t> remainders;
  Scratch<std::uint16_t> marks;

  void prepare(const kernels::ListKernels& kernels, std::span<const std::uint16_t> positions,
               std::uint64_t span) {
    prepare_divided(kernels, positions, gap_divisor(span, positions.size()));
  }
  void prepare(const kernels::ListKernels& kernels, std::span<const std::uint32_t> positions,
               std::uint64_t span) {
    prepare_divided(kernels, positions, gap_divisor(span, positions.size()));
  }
  void prepare_divided(const kernels::ListKernels& kernels,
                       std::span<const std::uint16_t> positions, GapDivisor by);
  void prepare_divided(const kernels::ListKernels& kernels,
                       std::span<const std::uint32_t> positions, GapDivisor by);
  std::uint64_t plane_bits() const {
    return std::uint64_t{divisor.shift} * count + (divisor.thirds ? count + trits : 0);
  }
  std::uint64_t unary_bits() const {
    return count == 0 ? 0 : std::uint64_t{marks.data()[count - 1]} + 1;
  }
  std::uint64_t bits() const { return plane_bits() + unary_bits(); }

  void write_planes(const kernels::ListKernels& kernels, kernels::BitWriter& out) const {
    kernels.pack_planes(remainders.data(), count, divisor.shift, out);
    if (divisor.thirds) kernels.pack_trits(remainders.data(), count, divisor.shift, out);
  }
  void write_unary(const kernels::ListKernels& kernels, kernels::BitWriter& out) const {
    kernels.write_marks(marks.data(), count, out);
  }
};

// Bits from an untrusted sender. The buffer has kBitSlackBytes readable (and zero) after its end.
struct BitCursor {
  const std::byte* bytes;
  std::uint64_t at;     // the next bit
  std::uint64_t limit;  // the first that does not belong to it

  std::uint64_t left() const { return limit - at; }
};

// All bits used, and only zeros up to the end of the last byte?
bool ends_cleanly(const BitCursor& bits);

// Reads the two parts of a list at their places. Each returns false if the bits do not hold it.
class RiceListReader {
 public:
  bool read_planes(const kernels::ListKernels& kernels, BitCursor& bits, std::uint64_t span,
                   std::size_t count) {
    return read_divided_planes(kernels, bits, span, count, gap_divisor(span, count));
  }
  bool read_divided_planes(const kernels::ListKernels& kernels, BitCursor& bits, std::uint64_t span,
                           std::size_t count, GapDivisor divisor);
  // Writes count positions below the span (room for kPositionSlack more).
  bool read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint16_t* positions);
  bool read_unary(const kernels::ListKernels& kernels, BitCursor& bits, std::uint32_t* positions);

 private:
  bool find_marks(const kernels::ListKernels& kernels, BitCursor& bits);

  std::uint64_t span_ = 0;
  std::size_t count_ = 0;
  GapDivisor divisor_;
  Scratch<std::uint16_t> remainders_;
  Scratch<std::uint16_t> marks_;
};

}  // namespace sparcl::codec
