#pragma once
// When a waiting rank calls watch() again: by the clock, not by turns. On a busy machine each turn
// may take a tenth of a second, and silence is not counted while no watch is in force.

namespace sparcl::net {

class WatchClock {
 public:
  void wait_begins(double now) { next_ = now + kUnwatchedSeconds; }

  bool is_due(double now) {
    if (now < next_) return false;
    next_ = now + kSecondsPerWatch;
    return true;
  }

 private:
  static constexpr double kUnwatchedSeconds =
      0.01;  // most waits have ended by then, and cost the heartbeat's thread nothing
  static constexpr double kSecondsPerWatch = 0.1;  // a watch lasts ten times as long, or more

  double next_ = 0;
};

}  // namespace sparcl::net
