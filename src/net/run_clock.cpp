#include "src/net/run_clock.hpp"

#include <algorithm>

namespace sparcl::net {

double RunClock::look() {
  const double real = monotonic_seconds();
  const double now = this->now() + std::clamp(real - real_, 0.0, slack_s_);
  real_ = real;
  now_.store(now, std::memory_order_relaxed);
  return now;
}

int RunClock::poll(std::span<pollfd> entries, double until) {
  while (true) {
    const double wait = std::clamp(until - look(), 0.0, slack_s_);
    const int ready = poll_until(entries, monotonic_seconds() + wait);
    if (look() >= until || ready > 0) return ready;
  }
}

}  // namespace sparcl::net
