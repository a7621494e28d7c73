#include "tools/sparcl/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "src/base/standard_streams.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(500);  // before the line is shown, heuristic
constexpr auto kPause = std::chrono::milliseconds(100);     // between two updates

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + kPatience) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (std::exchange(shown_, false)) (void)write_quietly(STDERR_FILENO, "\r\033[K");
}

bool Progress::is_due() {
  if (!on_terminal_) return false;
  const Clock::time_point now = Clock::now();
  if (now < next_) return false;
  next_ = now + kPause;
  return true;
}

void Progress::write_line(const std::string& state) {
  shown_ = true;
  (void)write_quietly(STDERR_FILENO, fmt::format("\r{}: {}", what_, state));
}

void Progress::update(std::uint64_t done, std::uint64_t all) {
  if (all == 0 || !is_due()) return;
  const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(all);
  write_line(fmt::format("{:3.0f} %", percent));
}

void Progress::update(std::uint64_t bytes) {
  if (is_due()) write_line(human_bytes(bytes) + "\033[K");  // the last one may have been longer
}

}  // namespace sparcl::tool
