#pragma once
// The time in which a service's thread ran, or waited for its descriptors. The clock stands still
// while the process does: a stop signal, a container's freezer, a virtual machine's pause. No peer
// counts as silent after a pause that both sides shared.

#include <algorithm>
#include <atomic>
#include <span>

#include "src/net/socket.hpp"

namespace sparcl::net {

// The slack of a service whose peers may be silent for silence_s: a quarter of it, as in the
// heartbeats of ranks. At most 0.25 s, because a replica waits half a second for its parent.
inline double clock_slack_s(double silence_s) { return std::min(silence_s / 4, 0.25); }

class RunClock {
 public:
  // slack_s: the largest step that one gap between two looks adds. A thread that looks more rarely
  // counts less time than passes.
  explicit RunClock(double slack_s) : slack_s_(slack_s), real_(monotonic_seconds()), now_(real_) {}
  RunClock(const RunClock&) = delete;
  RunClock& operator=(const RunClock&) = delete;

  // Seconds, as of the last look. Any thread.
  double now() const { return now_.load(std::memory_order_relaxed); }

  // The next two are for the service's thread alone.
  double look();
  // poll_until() on this clock.
  int poll(std::span<pollfd> entries, double until);

 private:
  double slack_s_;
  double real_;
  std::atomic<double> now_;
};

}  // namespace sparcl::net
