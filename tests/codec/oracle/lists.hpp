#pragma once
// The parts that blocks of several modes share: lists of positions, and the sizes of steps.

#include <vector>

#include "tests/codec/oracle/cursor.hpp"

namespace sparcl::oracle {

// "Split Rice": `count` ascending positions below `span`. Its two parts may lie apart from each
// other.
class PositionList {
 public:
  PositionList(std::uint64_t span, std::uint64_t count);
  PositionList(std::uint64_t span, std::uint64_t count, unsigned low_bits)
      : span_(span), count_(count), low_bits_(low_bits) {}

  void read_planes(BitCursor& bits);
  void read_unary(BitCursor& bits);
  const std::vector<std::uint64_t>& positions() const { return positions_; }

 private:
  std::uint64_t span_;
  std::uint64_t count_;
  unsigned low_bits_ = 0;  // l
  bool has_trits_ = false;
  std::vector<std::uint64_t> low_;  // the remainder of each gap
  std::vector<std::uint64_t> positions_;
};

// `count` numbers, coded as M unary and then M suffixes with the parameter e.
std::vector<std::uint64_t> read_magnitudes(BitCursor& bits, std::uint64_t count, unsigned e);
// The same with an e for each.
std::vector<std::uint64_t> read_magnitudes(BitCursor& bits, const std::vector<unsigned>& exponents);

}  // namespace sparcl::oracle
