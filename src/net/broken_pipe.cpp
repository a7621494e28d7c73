#include "src/net/broken_pipe.hpp"

#include <signal.h>

namespace sparcl::net {
namespace {

// The kernel sends SIGPIPE to the thread that wrote.
void on_broken_pipe(int number) {
  if (BrokenPipeGuard::is_inside()) return;
  ::signal(number, SIG_DFL);
  ::raise(number);  // ends the process once this handler has returned
}

}  // namespace

void take_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
      now.sa_handler != SIG_DFL)
    return;
  struct sigaction taken {};
  taken.sa_handler = on_broken_pipe;
  taken.sa_flags = SA_RESTART;
  sigemptyset(&taken.sa_mask);
  (void)::sigaction(SIGPIPE, &taken, nullptr);
}

}  // namespace sparcl::net
