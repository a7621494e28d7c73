#pragma once
// A mutex that threads get in the order in which they asked. A service's thread releases it and
// takes it again at once in each turn. Other threads wait for one turn at most; with std::mutex
// they can wait longer.

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace sparcl {

class FairMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t own = last_++;
    turn_.wait(lock, [&] { return next_ == own; });
  }

  void unlock() {
    const std::lock_guard lock(mutex_);
    ++next_;
    turn_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t last_ = 0;  // tickets given
  std::uint64_t next_ = 0;  // whose turn it is
};

}  // namespace sparcl
