#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {

namespace {

struct Divisor {
  unsigned low_bits;
  bool has_trits;
};

// 1, 2, 3, 4, 6, 8, 12, ... 65,536: the first that is large enough for so many positions.
Divisor divisor_of(std::uint64_t span, std::uint64_t count) {
  const auto suffices = [&](std::uint64_t m, std::uint64_t c) {
    return 1000 * m * count >= c * (2 * span - count);
  };
  if (count == 0 || suffices(1, 236)) return {0, false};
  for (unsigned l = 1; l < 16; ++l) {
    if (suffices(std::uint64_t{1} << l, 280)) return {l, false};
    if (suffices(std::uint64_t{3} << (l - 1), 300)) return {l - 1, true};
  }
  return {16, false};
}

}  // namespace

PositionList::PositionList(std::uint64_t span, std::uint64_t count) : span_(span), count_(count) {
  const Divisor divisor = divisor_of(span, count);
  low_bits_ = divisor.low_bits;
  has_trits_ = divisor.has_trits;
}

void PositionList::read_planes(BitCursor& bits) {
  low_.assign(count_, 0);
  for (unsigned plane = 0; plane < low_bits_; ++plane) {
    for (std::uint64_t& low : low_) low |= std::uint64_t{bits.bit()} << plane;
  }
  if (!has_trits_) return;
  std::vector<std::uint64_t> trits;
  for (std::uint64_t i = 0; i < count_; ++i) trits.push_back(bits.bit() ? 1 : 0);
  for (std::uint64_t i = 0; i < count_; ++i) {
    if (trits[i] != 0 && bits.bit()) trits[i] = 2;
    low_[i] += trits[i] << low_bits_;
  }
}

void PositionList::read_unary(BitCursor& bits) {
  const std::uint64_t divisor = (has_trits_ ? std::uint64_t{3} : std::uint64_t{1}) << low_bits_;
  std::uint64_t next = 0;  // the least position that can follow
  for (const std::uint64_t low : low_) {
    const std::uint64_t position = next + bits.unary() * divisor + low;
    refuse_if(position >= span_, "a position lies past the end");
    positions_.push_back(position);
    next = position + 1;
  }
}

std::vector<std::uint64_t> read_magnitudes(BitCursor& bits, std::uint64_t count, unsigned e) {
  return read_magnitudes(bits, std::vector<unsigned>(count, e));
}

std::vector<std::uint64_t> read_magnitudes(BitCursor& bits,
                                           const std::vector<unsigned>& exponents) {
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
