#pragma once
// Logging to standard error; the level is SPARCL_DEBUG. Errors are logged once, where they are
// first known.

#include <fmt/format.h>

#include <exception>
#include <string_view>
#include <utility>

namespace sparcl {

enum class LogLevel : int { kTrace = 0, kDebug = 1, kInfo = 2, kWarn = 3, kError = 4, kOff = 6 };

// Messages are best effort: none of these functions throws. A message is left out if there is no
// memory for it.
bool log_enabled(LogLevel level) noexcept;
void log_text(LogLevel level, std::string_view text) noexcept;

template <class... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!log_enabled(level)) return;
  try {
    log_text(level, fmt::format(format, std::forward<Args>(args)...));
  } catch (const std::exception&) {
  }
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kWarn, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace sparcl
