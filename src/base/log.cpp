#include "src/base/log.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "src/base/shown_text.hpp"
#include "src/base/standard_streams.hpp"

namespace sparcl {
namespace {

spdlog::level::level_enum level_from_environment() {
  const char* text = std::getenv("SPARCL_DEBUG");
  if (text == nullptr || *text == '\0') return spdlog::level::warn;
  std::string name(text);
  for (char& c : name)
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);  // in every locale
  const spdlog::level::level_enum level = spdlog::level::from_str(name);
  return level == spdlog::level::off && name != "off" ? spdlog::level::info : level;
}

// Standard error may be full, closed, or a pipe without a reader. The program that uses this
// library must go on.
class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    (void)write_quietly(STDERR_FILENO, {line.data(), line.size()});
  }
  void flush_() override {}
};

// Never destroyed: other threads may still log when the process ends.
spdlog::logger& logger() {
  static spdlog::logger& instance = [&]() -> spdlog::logger& {
    auto* const made = new spdlog::logger("sparcl", std::make_shared<StandardErrorSink>());
    made->set_level(level_from_environment());
    made->set_error_handler(
        [](const std::string&) {});  // spdlog's own writes to standard error as well
    made->set_pattern("sparcl %H:%M:%S.%e %P %l: %v");
    return *made;
  }();
  return instance;
}

}  // namespace

bool log_enabled(LogLevel level) noexcept try {
  return logger().should_log(static_cast<spdlog::level::level_enum>(level));
} catch (const std::exception&) {
  return false;
}

void log_text(LogLevel level, std::string_view text) noexcept try {
  const std::string line = shown_line(text);
  logger().log(static_cast<spdlog::level::level_enum>(level), spdlog::string_view_t(line));
} catch (const std::exception&) {
}

}  // namespace sparcl
