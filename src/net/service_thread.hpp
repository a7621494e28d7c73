#pragma once
// A thread of the library. It takes no signals of the user's, and ends when it is told to. A child
// of fork() does not have it and leaves it alone.

#include <atomic>
#include <functional>
#include <thread>

#include "src/base/status.hpp"
#include "src/net/socket.hpp"

namespace sparcl::net {

class ServiceThread {
 public:
  // The end of the thread, as `body` sees it.
  class Stop {
   public:
    int fd() const { return event_->fd(); }  // readable once the thread is to end
    bool is_asked() const { return asked_->load(std::memory_order_acquire); }

   private:
    friend class ServiceThread;
    const WakeEvent* event_ = nullptr;
    const std::atomic<bool>* asked_ = nullptr;
  };

  ServiceThread() = default;
  ~ServiceThread() { stop(); }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  // Call it once. `what`, a literal, is named in errors. An exception ends the thread, with a
  // message in the log.
  Status start(const char* what, std::function<void(const Stop&)> body);

  // Waits for the thread's end. False in a child of fork(): the objects that the thread uses may be
  // in any state there, and must not be destroyed.
  bool stop();
  bool is_own_process() const;

 private:
  WakeEvent event_;
  std::atomic<bool> asked_ = false;
  std::thread thread_;
  int pid_ = 0;
};

}  // namespace sparcl::net
