#include "src/base/failpoint.hpp"

#ifndef SPARCL_NO_FAILPOINTS

#include <signal.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <thread>

#include "src/base/log.hpp"

namespace sparcl {
namespace {

struct Failpoint {
  std::string_view name;  // in the environment
  std::uint64_t count = 0;
  int signal = 0;  // 0: a delay, or an exception
  bool throws = false;
  std::uint64_t delay_ms = 0;
};

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Failpoint> parse(std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint64_t> count = number(text.substr(first + 1, second - first - 1));
  if (!count || *count == 0) return std::nullopt;
  Failpoint point{text.substr(0, first), *count, 0, false, 0};
  const std::string_view act = text.substr(second + 1);
  if (act == "kill") {
    point.signal = SIGKILL;
  } else if (act == "stop") {
    point.signal = SIGSTOP;
  } else if (act == "throw") {
    point.throws = true;
  } else if (const auto delay = act.starts_with("delay=") ? number(act.substr(6)) : std::nullopt) {
    point.delay_ms = *delay;
  } else {
    return std::nullopt;
  }
  return point;
}

// Read once: a later change of the variable has no effect.
const std::optional<Failpoint>& armed() {
  static const std::optional<Failpoint> point = []() -> std::optional<Failpoint> {
    const char* text = std::getenv("SPARCL_TEST_FAILPOINT");
    if (text == nullptr || *text == '\0') return std::nullopt;
    std::optional<Failpoint> read = parse(text);
    if (!read)
      log_error(
          "SPARCL_TEST_FAILPOINT={}: expected name:count:kill, stop, throw or delay=milliseconds",
          text);
    return read;
  }();
  return point;
}

}  // namespace

const bool kFailpointsArmed = std::getenv("SPARCL_TEST_FAILPOINT") != nullptr;

void pass_failpoint(std::string_view name) {
  static std::atomic<std::uint64_t> passed{0};
  const std::optional<Failpoint>& point = armed();
  if (!point || point->name != name ||
      passed.fetch_add(1, std::memory_order_relaxed) + 1 != point->count)
    return;
  if (point->throws) throw std::bad_alloc();
  if (point->signal != 0) {
    ::raise(point->signal);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(point->delay_ms));
  }
}

}  // namespace sparcl

#endif
