#include "tools/sparcl/signals.hpp"

#include <pthread.h>

#include <csignal>
#include <thread>

#include "src/model/temporary_path.hpp"

namespace sparcl::tool {
namespace {

// A thread of its own: nearly nothing may be called in a handler.
void wait_for_signal(sigset_t signals) {
  int number = 0;
  if (::sigwait(&signals, &number) != 0) return;
  model::remove_temporary_paths();
  std::signal(number, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(number);
}

bool is_ignored(int number) {
  struct sigaction action;
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void clean_up_on_signals() {
  // A file that outgrows its limit: the write fails with a reason, and what was written is removed as after any other error. The
  // signal itself goes to the thread that writes, where nobody could wait for it.
  std::signal(SIGXFSZ, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) sigaddset(&signals, number);  // nohup stays what it is
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(wait_for_signal, signals).detach();
}

}  // namespace sparcl::tool
