#pragma once

#include <cstdint>
#include <string_view>

namespace sparcl {

// The determinism of sums. kRuns: the same on all ranks and in every run of one algorithm.
// kCanonical: the sums of the tree over ranks (src/sparse/parts/rank_tree.hpp), for every algorithm
// and transport.
enum class Determinism : std::uint8_t { kRuns, kCanonical };

inline std::string_view determinism_name(Determinism determinism) {
  return determinism == Determinism::kCanonical ? "canonical" : "runs";
}

}  // namespace sparcl
