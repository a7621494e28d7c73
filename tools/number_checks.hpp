#pragma once
// Checks for numeric options. Give them by transform(), which runs them before all other checks.
// CLI11 lets "nan" pass its ranges, and takes -1, or too many digits, for the largest unsigned
// number.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

namespace sparcl::tool {

inline CLI::Validator no_nan() {
  const auto fault = [](std::string& text) {
    std::string lower = text;
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char each) { return static_cast<char>(each | 0x20); });
    return lower.find("nan") == std::string::npos ? std::string() : "'" + text + "' is no number";
  };
  return CLI::Validator(fault, "", "no_nan");
}

inline CLI::Validator is_unsigned() {
  const auto fault = [](std::string& text) {
    std::uint64_t value = 0;
    if (text.starts_with('-')) return "'" + text + "' is negative";
    const bool is_too_large = std::from_chars(text.data(), text.data() + text.size(), value).ec ==
                              std::errc::result_out_of_range;
    return is_too_large ? "'" + text + "' is larger than 18446744073709551615" : std::string();
  };
  return CLI::Validator(fault, "", "is_unsigned");
}

// Of real numbers: finite, and not negative. name: of the validator.
inline CLI::Validator not_negative(const std::string& name = "") {
  const auto fault = [](const std::string& text) {
    double value = 0;
    const bool is_number =
        CLI::detail::lexical_cast(text, value) && value >= 0 && std::isfinite(value);
    return is_number ? std::string() : "'" + text + "' is no finite number from 0 on";
  };
  return CLI::Validator(fault, "", name);
}

// Of whole numbers, beside is_unsigned().
inline CLI::Validator at_least_one() {
  const auto fault = [](const std::string& text) {
    std::uint64_t value = 0;
    const bool is_good = CLI::detail::lexical_cast(text, value) && value >= 1;
    return is_good ? std::string() : "'" + text + "' is no whole number from 1 on";
  };
  return CLI::Validator(fault, "POSITIVE", "");
}

}  // namespace sparcl::tool
