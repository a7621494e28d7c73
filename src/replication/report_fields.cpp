#include "src/replication/report_fields.hpp"

#include <fmt/format.h>

#include <cmath>

#include "src/base/shown_text.hpp"

namespace sparcl::replication {
namespace {

// Different texts stay different: bytes that are no UTF-8 are those of as_utf8().
std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char each : as_utf8(text)) {
    if (each == '"' || each == '\\') {
      out += {'\\', each};
    } else if (static_cast<unsigned char>(each) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(each));
    } else {
      out += each;
    }
  }
  return out + '"';
}

}  // namespace

ReportFields::Value::Value(double value)
    : text_(std::isfinite(value) ? fmt::format("{}", value) : "null") {}

ReportFields::Value::Value(std::string_view text) : text_(json_text(text)) {}

std::string ReportFields::text() const {
  std::string out = "{";
  for (const auto& [name, value] : fields_) {
    if (out.size() > 1) out += ',';
    out += json_text(name) + ':' + value.text();
  }
  return out + '}';
}

}  // namespace sparcl::replication
