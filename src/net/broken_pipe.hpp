#pragma once
// Open MPI's TCP writes to sockets without MSG_NOSIGNAL: SIGPIPE ends a survivor that is just
// sending to a rank that died.

#include <csignal>

namespace sparcl::net {

// Once a process: from now on SIGPIPE inside a BrokenPipeGuard is nothing, and anywhere else what
// it was. Only where the program has left the signal at its default, which ends it.
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
