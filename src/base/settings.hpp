#pragma once
// One table of settings: each row appears in `sparcl info`, in docs/reference/settings.md and as
// SPARCL_<NAME> in the environment.

#include <span>
#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace sparcl {

enum class SettingType { kChoice, kSeconds, kCount, kText, kSecret };  // a secret is never shown

struct SettingRow {
  std::string_view name;  // "TIMEOUT_S"; the environment variable is SPARCL_TIMEOUT_S
  SettingType type;
  std::string_view choices;   // for kChoice: "off|touched|full"
  std::string_view fallback;  // the default, as text
  std::string_view meaning;
};

// The settings that choose an algorithm are not in the table: collectives/table makes them from the
// tables of algorithms.
std::span<const SettingRow> setting_rows();

struct SettingValue {
  std::string text;
  std::string source;  // "default" or "environment"
};

// The value in force if no config struct overrides it. `name` must be a row of the table.
SettingValue setting(std::string_view name);
SettingValue setting(const SettingRow& row);

std::string shown_value(const SettingRow& row);  // "(set)" for a secret

// The same, parsed; a value that does not parse is an error that names the variable and what it
// accepts.
Result<double> setting_number(std::string_view name);
Result<std::string> setting_choice(std::string_view name);
Result<std::string> setting_choice(const SettingRow& row);

constexpr double kMaxSeconds =
    1e8;  // three years: a larger value is a mistake, and exceeds the range of clocks

// Whether `row` accepts the value in force: the error that a user of the setting would get.
Status check_setting(const SettingRow& row);
std::string accepted_values(const SettingRow& row);  // "one of off|touched|full"

// Logs one warning for each SPARCL_ name in the environment that no row knows; at most once a
// process. more: rows beside the table's.
void warn_of_unknown_settings(std::span<const SettingRow> more = {});

}  // namespace sparcl
