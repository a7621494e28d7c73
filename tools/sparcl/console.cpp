#include "tools/sparcl/console.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>

#include "src/model/file_reader.hpp"

namespace sparcl::tool {
namespace {

Status write_out(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
  return model::system_error("standard output", fmt::format("writing {} bytes failed", text.size()));
}

// Names out of files are UTF-8 already; what is not (a path) must not stop the output.
std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

int report_failure(const char* error, const std::string& message, const std::string& hint, int code, bool as_json) {
  fmt::print(stderr, "sparcl: error: {}\n{}", message, hint);
  if (!as_json) return code;
  const Status written = write_out(one_line({{"ok", false}, {"error", error}, {"message", message}, {"exit_code", code}}));
  return written.ok() ? code : exit_code(written.code());
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

Status print(bool as_json, const Json& json, const std::string& text) {
  if (!as_json) return write_out(text);
  Json whole{{"ok", true}};
  whole.update(json);
  return write_out(one_line(whole));
}

int print_error(const Status& status, bool as_json) {
  const int code = exit_code(status.code());
  return report_failure(code_name(status.code()), status.message(), "", code, as_json);
}

int print_usage_error(const std::string& what, const std::string& hint, bool as_json) {
  return report_failure("usage", what, hint, kExitUsage, as_json);
}

void print_warning(const std::string& text) { print_note("warning: " + text); }

void print_note(const std::string& text) { fmt::print(stderr, "sparcl: {}\n", text); }

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{"bytes", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= (unit == 0 ? 1000 : 999.5) && unit + 1 < kUnits.size(); ++unit) value /= 1000;  // three digits
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

Json hash_or_null(const Hash128* hash) { return hash == nullptr ? Json(nullptr) : Json(to_hex(*hash)); }

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

}  // namespace sparcl::tool
