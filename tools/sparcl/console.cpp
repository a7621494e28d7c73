#include "tools/sparcl/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "src/base/files/file_reader.hpp"
#include "src/base/shown_text.hpp"
#include "src/base/standard_streams.hpp"

namespace sparcl::tool {
namespace {

// Paths may hold any bytes, but JSON holds UTF-8.
Json with_utf8(const Json& json) {
  if (json.is_string()) return as_utf8(json.get_ref<const std::string&>());
  if (!json.is_structured()) return json;
  Json made = json.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : json.items()) {
    if (json.is_array()) {
      made.push_back(with_utf8(value));
    } else {
      made[as_utf8(key)] = with_utf8(value);
    }
  }
  return made;
}

// ASCII alone: other characters, which could drive a terminal, are \uNNNN.
std::string one_line(const Json& json) { return with_utf8(json).dump(-1, ' ', true) + "\n"; }

// Of the failure that is printed at the end.
Json& failure_members() {
  static Json members = Json::object();
  return members;
}

void say(const std::string& text) { (void)write_quietly(STDERR_FILENO, text); }

int report_failure(const char* error, const std::string& message, const std::string& hint, int code,
                   bool as_json) {
  const std::string line = shown_line(message);
  say(fmt::format("sparcl: error: {}\n{}", line, hint));
  if (as_json) {
    Json json{{"ok", false}, {"error", error}, {"message", line}, {"exit_code", code}};
    json.update(failure_members());
    (void)write_out(one_line(json));
  }
  return code;  // of the first failure
}

std::string result_text(bool as_json, const Json& json, const std::string& text) {
  if (!as_json) return shown_lines(text);
  Json whole{{"ok", true}};
  whole.update(json);
  return one_line(whole);
}

}  // namespace

int exit_code(Code code) {
  switch (code) {
    case Code::kSuccess:
      return kExitOk;
    case Code::kCorrupt:
    case Code::kMismatch:
    case Code::kWrongBase:
    case Code::kUnauthorized:
      return kExitRefused;
    default:
      return kExitFailure;
  }
}

Status write_out(const std::string& text) {
  if (write_quietly(STDOUT_FILENO, text) || errno == EPIPE) return {};
  return system_error("standard output",
                      fmt::format("the result of {} bytes cannot be written", text.size()));
}

Status print(bool as_json, const Json& json, const std::string& text) {
  return write_out(result_text(as_json, json, text));
}

void print_news(bool as_json, const Json& json, const std::string& text) {
  static bool is_told = false;
  const Status written = write_out(result_text(as_json, json, text));
  if (!written.ok() && !std::exchange(is_told, true))
    print_warning(written.message() + ": the program goes on without it");
}

int print_error(const Status& status, bool as_json) {
  const int code = exit_code(status.code());
  return report_failure(code_name(status.code()), status.message(), "", code, as_json);
}

Status with_members(Status error, Json members) {
  failure_members() = std::move(members);
  return error;
}

int print_usage_error(const std::string& what, const std::string& hint, bool as_json) {
  return report_failure("usage", what, hint, kExitUsage, as_json);
}

void print_warning(const std::string& text) { print_note("warning: " + text); }

void print_note(const std::string& text) { say(fmt::format("sparcl: {}\n", shown_line(text))); }

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{"bytes", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= (unit == 0 ? 1000 : 999.5) && unit + 1 < kUnits.size(); ++unit)
    value /= 1000;  // three digits
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

Json hash_or_null(const Hash128* hash) {
  return hash == nullptr ? Json(nullptr) : Json(to_hex(*hash));
}

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

}  // namespace sparcl::tool
