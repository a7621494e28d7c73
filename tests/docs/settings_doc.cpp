// Prints docs/reference/settings.md from the table of settings. scripts/settings-doc writes the
// file; a test compares the two.

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "collectives/table/collective_table.hpp"

namespace {

std::string accepts(const sparcl::SettingRow& row) {
  switch (row.type) {
    case sparcl::SettingType::kChoice: {
      std::string text = "`";
      for (const char c : row.choices) text += c == '|' ? std::string("`, `") : std::string(1, c);
      return text + "`";
    }
    case sparcl::SettingType::kSeconds:
      return "seconds";
    case sparcl::SettingType::kCount:
      return "a number";
    case sparcl::SettingType::kText:
    case sparcl::SettingType::kSecret:
      return "text";
  }
  return "";
}

}  // namespace

int main() {
  fmt::print(
      "# Settings\n\n"
      "`scripts/settings-doc` writes this page from the tables in `src/base/settings.cpp` and of "
      "the "
      "collectives.\n\n"
      "Each setting is a variable of the environment. A field of `sparclConfig_t` that is not zero "
      "goes before the variable, and the variable before the default. `sparcl info` shows each "
      "value in force and its source.\n\n"
      "A variable that begins with `SPARCL_` and is not in this table causes one warning. "
      "`SPARCL_TRACE` and `SPARCL_TEST_...`, which the tests read, are exceptions. A value that "
      "does "
      "not parse is an error that names the variable.\n\n"
      "| variable | accepts | default |\n|---|---|---|\n");
  const auto rows = sparcl::collectives::all_setting_rows();
  for (const sparcl::SettingRow& row : rows)
    fmt::print("| `SPARCL_{}` | {} | `{}` |\n", row.name, accepts(row), row.fallback);
  for (const sparcl::SettingRow& row : rows)
    fmt::print("\n## `SPARCL_{}`\n\n{}\n", row.name, row.meaning);
  return 0;
}
