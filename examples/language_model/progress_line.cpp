#include "progress_line.hpp"

#include <unistd.h>

#include <cstdio>

namespace training {

// Both, since mpirun gives its first rank a pseudo-terminal as standard output, wherever its own
// output goes.
ProgressLine::ProgressLine()
    : is_terminal_(isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1) {}

void ProgressLine::show(const std::string& text) const {
  if (is_terminal_) std::printf("\r\033[K%s", text.c_str());
  std::fflush(stdout);
}

void ProgressLine::clear() const {
  if (is_terminal_) std::fputs("\r\033[K", stdout);
}

}  // namespace training
