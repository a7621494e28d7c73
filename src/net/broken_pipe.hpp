#pragma once
// Open MPI's TCP writes to sockets without MSG_NOSIGNAL. SIGPIPE therefore ends a rank that sends
// to a rank that has just died.

#include <csignal>

namespace sparcl::net {

// Once a process: from now on SIGPIPE inside a BrokenPipeGuard has no effect, and elsewhere its
// default effect. Only if the program has left the signal at its default, which ends it.
void take_broken_pipes();

// This thread is inside MPI.
class BrokenPipeGuard {
 public:
  BrokenPipeGuard() { depth_ = depth_ + 1; }
  ~BrokenPipeGuard() { depth_ = depth_ - 1; }
  BrokenPipeGuard(const BrokenPipeGuard&) = delete;
  BrokenPipeGuard& operator=(const BrokenPipeGuard&) = delete;

  static bool is_inside() { return depth_ > 0; }

 private:
  static inline thread_local volatile std::sig_atomic_t depth_ = 0;  // read by a signal's handler
};

}  // namespace sparcl::net
