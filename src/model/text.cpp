#include "src/model/text.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace sparcl::model {
namespace {

// The length of the UTF-8 sequence at the front of `text`, or 0 if it is ill-formed (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xc2 && lead <= 0xdf ? 2 : (lead & 0xf0) == 0xe0 ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = at(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool past_end = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || past_end ? 0 : length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 120;
  std::string out = "'";
  for (std::size_t i = 0; i < text.size();) {
    if (i >= kShown) return out + fmt::format("...' ({} bytes)", text.size());
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = sequence_length(text.substr(i));
    const bool c1_control = length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (length == 0 || byte < 0x20 || byte == 0x7f || c1_control) {
      out += fmt::format("\\x{:02x}", byte);
      i += 1;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out + "'";
}

}  // namespace sparcl::model
