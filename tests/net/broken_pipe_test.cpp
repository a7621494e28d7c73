#include "src/net/broken_pipe.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace sparcl::net {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

void write_to_nobody() {
  int ends[2];
  if (::pipe(ends) != 0) ::_exit(2);
  ::close(ends[0]);
  if (::write(ends[1], "x", 1) == 1) ::_exit(3);
}

// What the test runner has set is not the default.
void begin() {
  ::signal(SIGPIPE, SIG_DFL);
  take_broken_pipes();
}

TEST(BrokenPipe, IsNothingInsideAGuard) {
  EXPECT_EXIT(
      {
        begin();
        const BrokenPipeGuard guard;
        write_to_nobody();
        ::_exit(0);
      },
      ExitedWithCode(0), "");
}

TEST(BrokenPipe, EndsTheProgramElsewhere) {
  EXPECT_EXIT(
      {
        begin();
        { const BrokenPipeGuard guard; }
        write_to_nobody();
        ::_exit(0);
      },
      KilledBySignal(SIGPIPE), "");
}

TEST(BrokenPipe, LeavesAloneWhatTheProgramHasSet) {
  EXPECT_EXIT(
      {
        ::signal(SIGPIPE, SIG_IGN);
        take_broken_pipes();
        ::_exit(::signal(SIGPIPE, SIG_DFL) == SIG_IGN ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sparcl::net
