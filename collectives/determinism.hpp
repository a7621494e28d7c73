#pragma once

#include <cstdint>

namespace sparcl::collectives {

// Which sums are the same. Runs: on all ranks, and in each run of an algorithm: one rank's after the other. Canonical: those of the
// tree over ranks (all_reduce/rank_tree.hpp), whatever the algorithm and the transport.
enum class Determinism : std::uint8_t { kRuns, kCanonical };

}  // namespace sparcl::collectives
