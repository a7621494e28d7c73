#include "src/base/standard_streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "src/base/file_size_signal.hpp"

namespace sparcl {
namespace {

bool write_all(int descriptor, std::string_view text, int patience_ms) noexcept {
  const FileSizeSignalBlock no_signal;  // the descriptor may be a file
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd room{descriptor, POLLOUT,
                0};  // a terminal or a pipe that another process has made non-blocking
    if (::poll(&room, 1, patience_ms) == 0) return false;
  }
  return true;
}

}  // namespace

void prepare_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    (void)::open("/dev/null", descriptor == STDIN_FILENO
                                  ? O_RDONLY
                                  : O_WRONLY);  // gets the lowest number, which is this one
  }
  (void)::signal(SIGPIPE, SIG_IGN);
}

// The kernel sends SIGPIPE to the thread that writes. It is blocked there during the write, and a
// pending one is taken.
bool write_quietly(int descriptor, std::string_view text, int patience_ms) noexcept {
  sigset_t broken_pipe, before, pending;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  const bool was_pending = ::sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
  const bool is_blocked = ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before) == 0;
  const bool is_written = write_all(descriptor, text, patience_ms);
  const int error = errno;
  if (!is_written && error == EPIPE && is_blocked && !was_pending) {
    constexpr timespec kNoWait{0, 0};
    while (::sigtimedwait(&broken_pipe, nullptr, &kNoWait) < 0 && errno == EINTR) continue;
  }
  if (is_blocked) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return is_written;
}

}  // namespace sparcl
