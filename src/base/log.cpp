#include "src/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

namespace sparcl {
namespace {

spdlog::level::level_enum level_from_environment() {
  const char* text = std::getenv("SPARCL_DEBUG");
  if (text == nullptr || *text == '\0') return spdlog::level::warn;
  std::string name(text);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const spdlog::level::level_enum level = spdlog::level::from_str(name);
  return level == spdlog::level::off && name != "off" ? spdlog::level::info : level;
}

// Never destroyed: other threads may be at it when the process ends.
spdlog::logger& logger() {
  static spdlog::logger& instance = [&]() -> spdlog::logger& {
    auto* const made = new spdlog::logger("sparcl", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(level_from_environment());
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
  logger().log(static_cast<spdlog::level::level_enum>(level), spdlog::string_view_t(text.data(), text.size()));
} catch (const std::exception&) {
}

}  // namespace sparcl
