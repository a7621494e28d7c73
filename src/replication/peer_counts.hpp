#pragma once

#include <cstdint>

namespace sparcl::replication {

// Counts of peers since this publisher began, for its status and its metrics.
struct PeerCounts {
  std::uint64_t lost = 0;     // replicas whose connections ended without a goodbye
  std::uint64_t refused = 0;  // connections that were told why they end
  std::uint64_t evicted = 0;  // connections that ended to make room for others
  std::uint64_t blamed = 0;   // times that a replica left its parent because the parent failed
};

}  // namespace sparcl::replication
