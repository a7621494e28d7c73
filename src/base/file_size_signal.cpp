#include "src/base/file_size_signal.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>

namespace sparcl {
namespace {

sigset_t file_size_signal() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGXFSZ);
  return set;
}

bool is_file_size_signal_pending() {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGXFSZ) == 1;
}

}  // namespace

// The kernel sends it to the thread that writes, so blocking it there is enough.
FileSizeSignalBlock::FileSizeSignalBlock() {
  const sigset_t set = file_size_signal();
  (void)::pthread_sigmask(SIG_BLOCK, &set, &before_);
  was_pending_ = is_file_size_signal_pending();
}

FileSizeSignalBlock::~FileSizeSignalBlock() {
  const int saved = errno;
  if (!was_pending_ && is_file_size_signal_pending()) {
    const sigset_t set = file_size_signal();
    const timespec no_time{};
    (void)::sigtimedwait(&set, nullptr, &no_time);
  }
  (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = saved;
}

std::string file_size_limit_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(" (files of this process may have {} bytes: ulimit -f)", limit.rlim_cur);
}

}  // namespace sparcl
