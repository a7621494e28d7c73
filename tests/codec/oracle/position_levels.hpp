#pragma once
// Where a block's changes are: one list of positions, or two levels (long gaps apart from short ones).

#include <optional>
#include <vector>

#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {

class PositionLevels {
 public:
  // Reads what says how the gaps are told apart, where there are two levels.
  PositionLevels(ByteCursor& in, std::uint64_t elements, std::uint64_t count, bool two_levels);

  void read_planes(BitCursor& bits);
  void read_unary(BitCursor& bits);
  std::vector<std::uint64_t> positions() const;

 private:
  std::uint64_t elements_;
  std::uint64_t count_;
  bool two_levels_;
  std::uint64_t least_long_ = 1;  // 2^j
  unsigned short_bits_ = 0;       // l
  std::uint64_t long_count_ = 0;  // s
  std::optional<PositionList> which_are_long_;
  std::optional<PositionList> long_gaps_;
  std::optional<PositionList> short_gaps_;  // or all positions, on one level
};

}  // namespace sparcl::oracle
