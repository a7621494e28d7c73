#include "tools/sparcl/console.hpp"

#include <array>
#include <cstdio>

#include <fmt/format.h>

#include "src/model/mapped_file.hpp"

namespace sparcl::tool {

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
  // Names out of files are UTF-8 already; what is not (a path) must not stop the output.
  const std::string out = as_json ? json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" : text;
  if (std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0) return {};
  return model::system_error("standard output", fmt::format("writing {} bytes failed", out.size()));
}

int print_error(const Status& status, bool as_json) {
  fmt::print(stderr, "sparcl: error: {}\n", status.message());
  const Json json{{"ok", false}, {"code", code_name(status.code())}, {"error", status.message()}};
  const Status printed = as_json ? print(true, json, "") : Status();
  return exit_code(printed.ok() ? status.code() : printed.code());
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{"bytes", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

Json hash_or_null(const Hash128* hash) { return hash == nullptr ? Json(nullptr) : Json(to_hex(*hash)); }

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

}  // namespace sparcl::tool
