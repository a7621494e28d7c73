#pragma once

#include <cstdint>

#include "src/base/status.hpp"

namespace sparcl::elastic {

// A round that has ended, as an aggregator sees it.
struct RoundReport {
  std::uint64_t round = 0;
  std::uint64_t listed = 0, late = 0, expelled = 0;
  double total_weight = 0;
  std::uint64_t changed = 0;         // elements of the result; 0 with a parent
  std::uint64_t received_bytes = 0;  // of contributions, and of sums of branches
  Status failure;      // ok: it was committed, or its sums are on their way to the parent
  double begun = 0;    // its end, on the monotonic clock
  double seconds = 0;  // from its end until its result was published, or its sums were made
};

}  // namespace sparcl::elastic
