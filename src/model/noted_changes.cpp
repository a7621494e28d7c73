#include "src/model/noted_changes.hpp"

#include <algorithm>
#include <utility>

namespace sparcl::model {

void NotedChanges::add(std::uint64_t block, codec::Positions positions) {
  if (positions.empty()) return;
  const std::size_t at = positions_.size();
  positions_.insert(positions_.end(), positions.begin(), positions.end());
  blocks_.push_back({block, at, positions.size()});
}

void NotedChanges::clear() {
  blocks_ = {};
  positions_ = {};
}

// Blocks ascend, each is there once, and so are its positions.
void NotedChanges::merge() {
  std::ranges::stable_sort(blocks_, {}, &OfBlock::block);
  std::vector<OfBlock> merged;
  std::vector<std::uint16_t> positions;
  positions.reserve(positions_.size());
  for (std::size_t i = 0; i < blocks_.size();) {
    const std::size_t at = positions.size(), first = i;
    for (; i < blocks_.size() && blocks_[i].block == blocks_[first].block; ++i) {
      const auto begin = positions_.begin() + static_cast<std::ptrdiff_t>(blocks_[i].at);
      positions.insert(positions.end(), begin,
                       begin + static_cast<std::ptrdiff_t>(blocks_[i].count));
    }
    const auto own = positions.begin() + static_cast<std::ptrdiff_t>(at);
    if (i - first > 1) {
      std::sort(own, positions.end());
      positions.erase(std::unique(own, positions.end()), positions.end());
    }
    merged.push_back({blocks_[first].block, at, positions.size() - at});
  }
  blocks_ = std::move(merged);
  positions_ = std::move(positions);
}

void NotedChanges::for_each_array(const std::function<void(const OfArray&)>& visit) {
  merge();
  OfArray found;
  const auto add = [&](const codec::Piece& piece, std::uint16_t position) {
    if (piece.array != found.array) {
      if (!found.positions.empty()) visit(found);
      found = {piece.array, {}, {}};
    }
    const std::uint64_t element = piece.first + (position - piece.offset),
                        block = element / codec::kBlockElements;
    if (found.parts.empty() || found.parts.back().block != block)
      found.parts.push_back({block, found.positions.size()});
    found.positions.push_back(static_cast<std::uint16_t>(element % codec::kBlockElements));
  };
  std::vector<codec::Piece> pieces;
  for (const OfBlock& each : blocks_) {
    (void)map_.block(each.block, pieces);
    std::size_t piece = 0;
    for (std::size_t i = each.at; i < each.at + each.count; ++i) {
      while (positions_[i] >= pieces[piece].offset + pieces[piece].count) ++piece;
      add(pieces[piece], positions_[i]);
    }
  }
  if (!found.positions.empty()) visit(found);
}

}  // namespace sparcl::model
