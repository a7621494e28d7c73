#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {

PositionList::PositionList(std::uint64_t span, std::uint64_t count) : span_(span), count_(count) {
  if (count == 0) return;
  while (low_bits_ < 16 && (64 * count) << low_bits_ < 31 * span) ++low_bits_;
}

void PositionList::read_planes(BitCursor& bits) {
  low_.assign(count_, 0);
  for (unsigned plane = 0; plane < low_bits_; ++plane) {
    for (std::uint64_t& low : low_) low |= std::uint64_t{bits.bit()} << plane;
  }
}

void PositionList::read_unary(BitCursor& bits) {
  std::uint64_t next = 0;  // the least position that can follow
  for (const std::uint64_t low : low_) {
    const std::uint64_t position = next + (bits.unary() << low_bits_) + low;
    refuse_if(position >= span_, "a position lies past the end");
    positions_.push_back(position);
    next = position + 1;
  }
}

std::vector<std::uint64_t> read_magnitudes(BitCursor& bits, std::uint64_t count, unsigned e) {
  return read_magnitudes(bits, std::vector<unsigned>(count, e));
}

std::vector<std::uint64_t> read_magnitudes(BitCursor& bits, const std::vector<unsigned>& exponents) {
  std::vector<unsigned> lengths;
  for (const unsigned e : exponents) {
    const std::uint64_t zeros = bits.unary();
    refuse_if(zeros + e > 63, "a magnitude has more than 63 bits");
    lengths.push_back(static_cast<unsigned>(zeros));
  }
  std::vector<std::uint64_t> magnitudes;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const unsigned length = lengths[i];
    const unsigned e = exponents[i];
    const std::uint64_t suffix = bits.number(length + e);
    const std::uint64_t low = suffix & ((std::uint64_t{1} << e) - 1);
    const std::uint64_t v = (std::uint64_t{1} << length) + (suffix >> e);
    magnitudes.push_back((v - 1) << e | low);
  }
  return magnitudes;
}

}  // namespace sparcl::oracle
