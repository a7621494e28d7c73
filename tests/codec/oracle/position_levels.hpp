#pragma once
// Where a block's changes are: one list of positions, two levels (long gaps apart from short ones),
// or sub-blocks.

#include <optional>
#include <vector>

#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {

enum class Places { kOneList, kTwoLevels, kSubBlocks };

class PositionLevels {
 public:
  // Reads what says how the gaps are told apart, where there are two levels; how large sub-blocks
  // are, and how many are listed.
  PositionLevels(ByteCursor& in, std::uint64_t elements, std::uint64_t count, Places places);

  void read_planes(BitCursor& bits);
  void read_unary(BitCursor& bits);
  std::vector<std::uint64_t> positions() const;

 private:
  std::uint64_t elements_;
  std::uint64_t count_;
  Places places_;
  std::uint64_t min_long_ = 1;    // 2^j
  unsigned short_bits_ = 0;       // l
  std::uint64_t long_count_ = 0;  // s
  std::optional<PositionList> which_are_long_;
  std::optional<PositionList> long_gaps_;
  std::optional<PositionList>
      short_gaps_;  // or all positions, on one level; or the inner list of sub-blocks

  void read_sub_blocks(BitCursor& bits);
  bool lists_unchanged() const { return 2 * count_ > listed_elements_.size(); }

  std::uint64_t sub_elements_ = 0;
  std::uint64_t sub_count_ = 0;
  std::vector<std::uint64_t> listed_elements_;  // of the sub-blocks, end to end
};

}  // namespace sparcl::oracle
