#include "tests/codec/oracle/sparse_walk.hpp"

namespace sparcl::oracle {
namespace {

constexpr std::uint64_t kBlockLimit = std::uint64_t{1} << 48;

}  // namespace

void SparseWalk::read(const Section& section) {
  ByteCursor content(section.content);
  if (section.has_gap()) {
    const std::uint64_t gap = content.varint();
    refuse_if(gap == 0 || gap > kBlockLimit - next_block_, "a gap of no blocks, or past the last");
    next_block_ += gap;
  }
  refuse_if(next_block_ >= kBlockLimit, "a block past the last");
  const unsigned mode = section.mode();
  refuse_if(mode != kDense && mode != kVerbatim && mode != kTwoLevelVerbatim,
            "a mode that needs what is held, of which there is nothing");
  const Block block{next_block_++, kBlockElements, kind_, {}};
  const Changes changes = read_block(mode, content.take(content.left()), block, {}, Kind::kSparse);
  const Bytes values = as_bytes(changes.values, kind_);
  sums_ = sums_ + element_sums(block.index, kind_.bytes, changes.positions, changes.values);
  values_.insert(values_.end(), values.begin(), values.end());
  for (const std::uint64_t position : changes.positions)
    indices_.push_back(block.index * kBlockElements + position);
  ++block_count_;
}

Hash SparseWalk::end_chunk() {
  const Hash sums = sums_;
  sums_ = {};
  return sums;
}

}  // namespace sparcl::oracle
