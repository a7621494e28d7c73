#include "src/model/text.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "src/base/shown_text.hpp"

namespace sparcl::model {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 120;
  if (text.size() <= kShown) return fmt::format("'{}'", shown(text));
  std::size_t cut = kShown;
  while (cut > kShown - 4 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80)
    --cut;  // not inside a character
  return fmt::format("'{}...' ({} bytes)", shown(text.substr(0, cut)), text.size());
}

}  // namespace sparcl::model
