#include "src/base/shown_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace sparcl {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

// Categories Cc, Cf, Zl and Zp of Unicode 15, and the variation selectors and tags, which show
// nothing.
constexpr std::array kHiddenCodes{
    CodeRange{0x00, 0x1f},       CodeRange{0x7f, 0x9f},       CodeRange{0xad, 0xad},
    CodeRange{0x600, 0x605},     CodeRange{0x61c, 0x61c},     CodeRange{0x6dd, 0x6dd},
    CodeRange{0x70f, 0x70f},     CodeRange{0x890, 0x891},     CodeRange{0x8e2, 0x8e2},
    CodeRange{0x180e, 0x180e},   CodeRange{0x200b, 0x200f},   CodeRange{0x2028, 0x202e},
    CodeRange{0x2060, 0x206f},   CodeRange{0xfe00, 0xfe0f},   CodeRange{0xfeff, 0xfeff},
    CodeRange{0xfff9, 0xfffb},   CodeRange{0x110bd, 0x110bd}, CodeRange{0x110cd, 0x110cd},
    CodeRange{0x13430, 0x1343f}, CodeRange{0x1bca0, 0x1bca3}, CodeRange{0x1d173, 0x1d17a},
    CodeRange{0xe0000, 0xe0fff}};

// `sequence` is well-formed.
char32_t code_of(std::string_view sequence) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(sequence[i]));
  };
  if (sequence.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7f >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3f);
  return code;
}

bool is_hidden(std::string_view sequence) {
  const char32_t code = code_of(sequence);
  return std::ranges::any_of(kHiddenCodes, [&](const CodeRange& range) {
    return range.first <= code && code <= range.last;
  });
}

void escape(std::string_view bytes, std::string_view mark, std::string& out) {
  for (const char byte : bytes) {
    out += mark;
    out += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
}

std::string make_fit(std::string_view text, bool doubles_backslashes, bool keeps_lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view next = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(next.size());
    if (next == "\\" && doubles_backslashes) {
      out += "\\\\";
    } else if (length == 0 || (is_hidden(next) && !(keeps_lines && next == "\n"))) {
      escape(next, "\\x", out);
    } else {
      out += next;
    }
  }
  return out;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                             : (lead & 0xf0) == 0xe0        ? 3
                             : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                            : 0;
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

std::string shown(std::string_view name) { return make_fit(name, true, false); }
std::string shown_line(std::string_view text) { return make_fit(text, false, false); }
std::string shown_lines(std::string_view text) { return make_fit(text, false, true); }

std::string as_utf8(std::string_view name) {
  constexpr std::string_view kMark = "\xef\xbf\xbd";
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    const std::size_t length = utf8_length(name);
    const std::string_view next = name.substr(0, std::max<std::size_t>(length, 1));
    name.remove_prefix(next.size());
    if (length == 0 || next == kMark) {
      escape(next, kMark, out);
    } else {
      out += next;
    }
  }
  return out;
}

}  // namespace sparcl
