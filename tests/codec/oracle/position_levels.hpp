#pragma once
// Where a block's changes are: one list of positions, or two (of sub-blocks, and in these).

#include <optional>
#include <vector>

#include "tests/codec/oracle/lists.hpp"

namespace sparcl::oracle {

class PositionLevels {
 public:
  // Reads what says how the block is cut, where there are two levels.
  PositionLevels(ByteCursor& in, std::uint64_t elements, std::uint64_t count, bool two_levels);

  void read_planes(BitCursor& bits);
  void read_unary(BitCursor& bits) { list_->read_unary(bits); }
  std::vector<std::uint64_t> positions() const;

 private:
  struct Range {
    std::uint64_t first;
    std::uint64_t count;
  };

  void read_subs(BitCursor& bits);
  std::vector<std::uint64_t> changed_candidates() const;

  std::uint64_t elements_;
  std::uint64_t count_;
  bool two_levels_;
  bool runs_ = false;
  unsigned size_bits_ = 0;
  std::uint64_t subs_ = 0;
  std::uint64_t listed_ = 0;
  bool lists_unchanged_ = false;
  std::vector<Range> active_;          // elements that may change
  std::uint64_t candidate_count_ = 0;  // of them
  std::optional<PositionList> list_;   // among them
};

}  // namespace sparcl::oracle
