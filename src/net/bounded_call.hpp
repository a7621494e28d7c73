#pragma once
// A call that may never return, such as a read from a network file system that hangs. It runs on a
// thread of its own, and its caller waits for a bounded time. A thread that hangs is left behind:
// it ends with its call, or with the process.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "src/base/status.hpp"

namespace sparcl::net {

// For one thread.
class BoundedCall {
 public:
  BoundedCall() = default;
  // Waits for the call for at most a second.
  ~BoundedCall();
  BoundedCall(const BoundedCall&) = delete;
  BoundedCall& operator=(const BoundedCall&) = delete;

  // Its result has not been taken yet.
  bool is_under_way() const { return state_ != nullptr; }
  // Not while one is under way. `call` owns all that it uses. SystemError: there is no thread.
  Status start(std::function<Status()> call);
  // The result, once. Nothing: the call has not ended in so many seconds.
  std::optional<Status> wait(double seconds);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable ended;
    std::optional<Status> result;
  };
  std::shared_ptr<State> state_;  // nullptr: no call
};

}  // namespace sparcl::net
