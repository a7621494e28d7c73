#pragma once

#include <cstdint>
#include <limits>

#include "src/base/status.hpp"

namespace sparcl::aggregate {

enum class RoundMode : std::uint8_t {
  kSynchronous,  // a round waits for all workers that were active when it began
  kQuorum,       // for `quorum` of them, and then for a grace window
  kAsynchronous  // for any `quorum` contributions that are not too stale
};

// The grace window after the quorum. It follows how long after the quorum the last worker of
// earlier rounds came, between these bounds (Decoupled DiLoCo, arXiv 2604.21428).
struct GraceOptions {
  double shortest_s = 0;
  double longest_s = 0;
};

struct RoundOptions {
  RoundMode mode = RoundMode::kSynchronous;
  std::uint32_t quorum = 1;  // contributions; not of synchronous rounds
  double deadline_s = 600;   // of a round, from its first contribution on, late ones included
  GraceOptions grace;
  std::uint64_t max_rounds_late = 1024;  // later contributions are refused
  double late_factor = 1;                // of a late contribution's weight, once a round
};

constexpr double kMaxWaitS = 1e8;  // three years: clocks do not overflow

// At most this many: the fate of older contributions is forgotten.
constexpr std::uint64_t kMaxRoundsLate = 4096;

// InvalidArgument names the option.
Status check_round_options(const RoundOptions& options);

}  // namespace sparcl::aggregate
