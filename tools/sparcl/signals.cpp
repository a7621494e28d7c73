#include "tools/sparcl/signals.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

#include "src/base/files/temporary_path.hpp"
#include "src/base/forever.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

struct StopRequest {
  std::mutex mutex;
  std::condition_variable came;
  bool is_possible = false;
  bool is_asked = false;
};

StopRequest& stop_request() {
  static Forever<StopRequest> one;
  return *one;
}

// False if the process must end at once.
bool ask_for_stop() {
  StopRequest& request = stop_request();
  const std::lock_guard lock(request.mutex);
  if (!request.is_possible || request.is_asked) return false;
  request.is_asked = true;
  request.came.notify_all();
  return true;
}

// A thread of its own, because few functions may be called in a handler.
void wait_for_signal(sigset_t signals) {
  int number = 0;
  do {
    if (::sigwait(&signals, &number) != 0) return;
  } while (ask_for_stop());
  const auto nothing_new = remove_temporary_paths();
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
  // Above the file size limit the write fails with a reason, and its output is removed as after any
  // other error. The signal itself goes to the thread that writes, where no thread could wait for
  // it.
  std::signal(SIGXFSZ, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) sigaddset(&signals, number);  // nohup stays in force
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    std::thread(wait_for_signal, signals).detach();
  } catch (const std::exception& error) {  // signals then end the process as usual
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    print_warning(
        fmt::format("no thread to wait for signals: {}: a signal will leave unfinished output, "
                    "which the next run removes",
                    error.what()));
  }
}

void stop_on_signals() {
  StopRequest& request = stop_request();
  const std::lock_guard lock(request.mutex);
  request.is_possible = true;
}

bool stop_is_asked() { return wait_for_stop(0); }

bool wait_for_stop(double seconds) {
  StopRequest& request = stop_request();
  std::unique_lock lock(request.mutex);
  const auto limit = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  return request.came.wait_for(lock, limit, [&] { return request.is_asked; });
}

}  // namespace sparcl::tool
