#pragma once

#include <algorithm>
#include <vector>

#include "src/base/staging.hpp"
#include "src/store/object_store.hpp"

namespace sparcl::store {

// The first bytes of a staging, which outlives it.
class StagedPieces {
 public:
  StagedPieces(const Staging& bytes, std::uint64_t count) {
    for (std::uint64_t at = 0; at < count; at += Staging::kSegmentBytes) {
      held_.push_back(bytes.slice(at, static_cast<std::size_t>(std::min<std::uint64_t>(
                                          Staging::kSegmentBytes, count - at))));
      pieces_.emplace_back(held_.back().bytes());
    }
  }
  Pieces pieces() const { return pieces_; }

 private:
  std::vector<Buffer> held_;
  std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace sparcl::store
