#pragma once

#include <cstdint>
#include <string_view>

namespace sparcl {

// Which sums are the same. Runs: on all ranks, and in each run of an algorithm: one rank's after
// the other. Canonical: those of the tree over ranks (src/sparse/parts/rank_tree.hpp), whatever the
// algorithm and the transport.
enum class Determinism : std::uint8_t { kRuns, kCanonical };

inline std::string_view determinism_name(Determinism determinism) {
  return determinism == Determinism::kCanonical ? "canonical" : "runs";
}

}  // namespace sparcl
