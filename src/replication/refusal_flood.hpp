#pragma once
// A line in the log if many connections are refused within a short time. Single refusals have lines
// of their own (PeerWarnings), or none: most connections of a flood name no peer.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/replication/peer_counts.hpp"

namespace sparcl::replication {

class RefusalFlood {
 public:
  // Heuristic, all of them.
  static constexpr double kWindow = 10;             // seconds
  static constexpr std::uint64_t kMaxUnsaid = 100;  // refusals in a window that give no line
  static constexpr double kPause = 60;              // seconds between two lines

  // A line that is due now. It has the refusals of all windows of the flood since the line before.
  std::optional<std::string> look(const PeerCounts& counts, double now);

 private:
  PeerCounts::ByReason seen_{};  // at the begin of the window
  double begin_ = -1;            // of the window; -1: there is none yet
  PeerCounts::ByReason unsaid_{};
  double unsaid_s_ = 0;  // in which they came
  double said_at_ = -kPause;
};

}  // namespace sparcl::replication
