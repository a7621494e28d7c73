#include "src/base/shown_text.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace sparcl {
namespace {

// The inverse that the documentation names: printf %b of the shell.
std::string by_printf(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
    } else if (text[i + 1] == '\\') {
      out += '\\', i += 1;
    } else {
      out += static_cast<char>(std::stoi(text.substr(i + 2, 2), nullptr, 16)), i += 3;
    }
  }
  return out;
}

const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> names{"new\nline",
                                              "\x1b[2J",
                                              "bell\a",
                                              "\xe2\x80\xaetxt.exe",
                                              "\xff\xfe",
                                              "half\xe2\x82",
                                              "back\\slash",
                                              "lit\\xffreal\xff",
                                              "\xc2\x9b"
                                              "1m",
                                              "\xef\xbf\xbd"
                                              "41",
                                              "\xe2\x80\xa8",
                                              "\x7f",
                                              "\xf3\xa0\x81\x81",
                                              std::string("nul\0x", 5)};
  return names;
}

TEST(ShownText, HostileNamesAreOneHarmlessLineThatCanBeUndone) {
  for (const std::string& name : hostile_names()) {
    const std::string text = shown(name);
    for (const char each : text) {
      const auto byte = static_cast<unsigned char>(each);
      EXPECT_TRUE(byte >= 0x20 && byte != 0x7f && byte != 0xff) << text;
    }
    EXPECT_EQ(text.find("\xe2\x80"), text.npos) << text;
    EXPECT_EQ(by_printf(text), name) << text;
  }
}

TEST(ShownText, UsualNamesStayAsTheyAre) {
  for (const char* name : {"model-00001.safetensors", "a b", "\xe6\xa8\xa1\xe5\x9e\x8b",
                           "gr\xc3\xbc\xc3\x9f", "'quoted'", ""})
    EXPECT_EQ(shown(name), name);
}

TEST(ShownText, LinesKeepTheirEndsAndMessagesDoNot) {
  EXPECT_EQ(shown_lines("a\n\x1b"
                        "b\\x\n"),
            "a\n\\x1bb\\x\n");
  EXPECT_EQ(shown_line("a\nb\\x0a"), "a\\x0ab\\x0a");
}

TEST(ShownText, AnyNameIsUtf8AndNoTwoAreAlike) {
  std::vector<std::string> made;
  for (const std::string& name : hostile_names()) {
    const std::string text = as_utf8(name);
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t length = utf8_length(rest);
      ASSERT_GT(length, 0u) << name;
      rest.remove_prefix(length);
    }
    for (const std::string& other : made) EXPECT_NE(other, text);
    made.push_back(text);
  }
  EXPECT_EQ(as_utf8("q\xff"),
            "q\xef\xbf\xbd"
            "ff");
  EXPECT_EQ(as_utf8("\xef\xbf\xbd"),
            "\xef\xbf\xbd"
            "ef\xef\xbf\xbd"
            "bf\xef\xbf\xbd"
            "bd");
  EXPECT_EQ(as_utf8("new\nline\xe2\x80\xae"), "new\nline\xe2\x80\xae");
}

}  // namespace
}  // namespace sparcl
