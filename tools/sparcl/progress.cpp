#include "tools/sparcl/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "src/base/standard_streams.hpp"

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

void Progress::update(std::uint64_t done, std::uint64_t all) {
  if (!on_terminal_ || all == 0) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + kPause;
  shown_ = true;
  const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(all);
  (void)write_quietly(STDERR_FILENO, fmt::format("\r{}: {:3.0f} %", what_, percent));
}

}  // namespace sparcl::tool
