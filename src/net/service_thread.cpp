#include "src/net/service_thread.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <new>
#include <system_error>

#include "src/base/log.hpp"
#include "src/net/signals_blocked.hpp"

namespace sparcl::net {
Status ServiceThread::start(const char* what, std::function<void(const Stop&)> body) {
  SPARCL_ASSIGN_OR_RETURN(WakeEvent event, WakeEvent::create());
  event_ = std::move(event);
  pid_ = getpid();
  Stop stop;
  stop.event_ = &event_;
  stop.asked_ = &asked_;
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([body = std::move(body), stop, what] {
      try {
        body(stop);
      } catch (const std::exception& error) {
        // The program continues: each waiter for this thread's work has a deadline.
        log_error("the thread of {} ends: {}", what, error.what());
      }
    });
  } catch (const std::system_error& error) {
    return Status(Code::kSystemError, fmt::format("no thread for {}: {}", what, error.what()));
  }
  return {};
}

bool ServiceThread::is_own_process() const { return pid_ == 0 || pid_ == getpid(); }

bool ServiceThread::stop() {
  if (!thread_.joinable()) return is_own_process();
  if (!is_own_process()) {
    alignas(std::thread) std::byte left[sizeof(std::thread)];
    new (left)
        std::thread(std::move(thread_));  // never destroyed: a child of fork() lacks the thread, so
                                          // joining waits for ever and detaching throws
    return false;
  }
  asked_.store(true, std::memory_order_release);
  event_.wake();
  thread_.join();
  return true;
}

}  // namespace sparcl::net
