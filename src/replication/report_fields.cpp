#include "src/replication/report_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/model/text.hpp"

namespace sparcl::replication {
namespace {

// The bytes of the first character; 0 if it is no UTF-8.
std::size_t character_bytes(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(text.size(), 4); ++bytes) {
    if (model::is_utf8(text.substr(0, bytes))) return bytes;
  }
  return 0;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (bytes == 0) {
      out += "\xef\xbf\xbd";
    } else if (first == '"' || first == '\\') {
      out += {'\\', text.front()};
    } else if (first < 0x20) {
      out += fmt::format("\\u{:04x}", first);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
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
