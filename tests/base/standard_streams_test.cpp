#include "src/base/standard_streams.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "src/base/log.hpp"

namespace sparcl {
namespace {

// The writing end of a pipe that nobody reads.
int broken_pipe() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return -1;
  ::close(ends[0]);
  return ends[1];
}

TEST(StandardStreams, AMessageThatCannotBeWrittenEndsNoProcess) {
  for (const char* where : {"full", "closed", "broken"}) {
    const auto write = [&] {
      ::signal(SIGPIPE, SIG_DFL);
      const std::string kind = where;
      if (kind == "closed") ::close(STDERR_FILENO);
      if (kind == "full") ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO);
      if (kind == "broken") ::dup2(broken_pipe(), STDERR_FILENO);
      for (int i = 0; i < 3; ++i) log_warn("message {}", i);
      ::_exit(write_quietly(STDERR_FILENO, "x") ? 1 : 0);
    };
    EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "") << where;
  }
}

TEST(StandardStreams, ASignalOfAnotherWriterIsLeftPending) {
  const auto write = [] {
    sigset_t broken, pending;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken, nullptr);
    const int fd = broken_pipe();
    if (::write(fd, "x", 1) >= 0 || write_quietly(fd, "y") || errno != EPIPE) ::_exit(1);
    ::sigpending(&pending);
    ::_exit(sigismember(&pending, SIGPIPE) == 1 ? 0 : 2);
  };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "");
}

TEST(StandardStreams, ClosedOnesAreOpenedOnTheNullDevice) {
  const auto prepare = [] {
    for (int i = 0; i <= STDERR_FILENO; ++i) ::close(i);
    prepare_standard_streams();
    std::array<char, 16> target{};
    for (int i = 0; i <= STDERR_FILENO; ++i) {
      const std::string link = "/proc/self/fd/" + std::to_string(i);
      const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
      if (length != 9 || std::string(target.data(), 9) != "/dev/null") ::_exit(1 + i);
    }
    ::_exit(::open("/dev/null", O_RDONLY) > STDERR_FILENO ? 0 : 10);
  };
  EXPECT_EXIT(prepare(), ::testing::ExitedWithCode(0), "");
}

TEST(Log, AMessageIsOneLineWhateverIsInIt) {
  const auto log = [] {
    log_warn("replica {}", "a\nsparcl forged\x1b[2J\xff");
    ::_exit(0);
  };
  EXPECT_EXIT(log(), ::testing::ExitedWithCode(0),
              "replica a\\\\x0asparcl forged\\\\x1b\\[2J\\\\xff\n");
}

}  // namespace
}  // namespace sparcl
