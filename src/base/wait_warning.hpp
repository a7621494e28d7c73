#pragma once
// When a long wait for other processes is worth a warning: after SPARCL_WAIT_WARNING_S seconds,
// then each time that it has lasted twice as long.

namespace sparcl {

class WaitWarning {
 public:
  WaitWarning() noexcept;

  // Since the wait began; infinity: never.
  double next_s() const { return next_s_; }
  bool is_due(double lasted_s) {
    if (lasted_s < next_s_) return false;
    next_s_ = 2 * lasted_s;
    return true;
  }
  // Another wait begins.
  void begin_anew() { next_s_ = first_s_; }

 private:
  double first_s_, next_s_;
};

}  // namespace sparcl
