#include "tools/sparcl/ucx_trial.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <string>
#include <string_view>

#include "src/base/error_text.hpp"

namespace sparcl::tool {
namespace {

constexpr int kPatienceMs = 20'000;  // it takes 20 ms

// The child's part.
[[noreturn]] void try_out_and_tell(const transport::UcxPlugin& plugin, int to) noexcept {
  try {
    const Status status = plugin.try_out();
    const std::string& text = status.message();
    if (!status.ok()) (void)!::write(to, text.data(), text.size());
    ::_exit(status.ok() ? 0 : 1);
  } catch (const std::exception&) {
    constexpr std::string_view kNoMemory = "out of memory while UCX was tried out";
    (void)!::write(to, kNoMemory.data(), kNoMemory.size());
    ::_exit(1);
  }
}

// Reads up to the child's end. False: it does not end.
bool read_all(int from, std::string& text) {
  std::array<char, 1024> piece;
  pollfd entry{from, POLLIN, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t bytes = ::read(from, piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return true;
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
}

Status cannot_try(const char* what) {
  return Status(Code::kSystemError,
                fmt::format("UCX cannot be tried out: {}: {}", what, error_text(errno)));
}

}  // namespace

Status try_out_ucx(const transport::UcxPlugin& plugin) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return cannot_try("no pipe could be made");
  const pid_t child = ::fork();
  if (child == 0) try_out_and_tell(plugin, ends[1]);
  const Status failed = child < 0 ? cannot_try("no process could be started") : Status();
  ::close(ends[1]);
  std::string text;
  const bool has_ended = child < 0 || read_all(ends[0], text);
  ::close(ends[0]);
  if (child < 0) return failed;
  if (!has_ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!has_ended)
    return Status(Code::kTimeout, fmt::format("UCX was not opened in {} s", kPatienceMs / 1000));
  if (WIFSIGNALED(status)) {
    return Status(
        Code::kSystemError,
        fmt::format("UCX has ended the process that opened it by signal {}: what it wrote to "
                    "standard error says why, mostly a lack of memory or descriptors",
                    WTERMSIG(status)));
  }
  return WEXITSTATUS(status) == 0 ? Status() : Status(Code::kSystemError, text);
}

}  // namespace sparcl::tool
