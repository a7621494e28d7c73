#pragma once
// Checks for numeric options, which replace those of CLI11: they let "nan" pass their ranges, take
// -1 or too many digits for the largest unsigned number, and read "010" as 8. Give them by
// transform(), which runs them before all other checks and lets them write the number anew.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace sparcl::tool {

namespace number_text {

// Digits, and what follows them if the text may go on with a unit.
enum class Tail : std::uint8_t { kNone, kUnit };

inline std::string fault_of(const std::string& text, std::uint64_t& value, Tail tail) {
  const char* const end = text.data() + text.size();
  if (text.starts_with('-')) return fmt::format("'{}' is negative", text);
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range)
    return fmt::format("'{}' is larger than {}", text, std::numeric_limits<std::uint64_t>::max());
  const bool is_whole = error == std::errc() && (stop == end || tail == Tail::kUnit);
  return is_whole ? std::string() : fmt::format("'{}' is no number of digits alone", text);
}

}  // namespace number_text

// A whole number from `min` to `max`.
inline CLI::Validator whole_number(std::uint64_t min = 0,
                                   std::uint64_t max = std::numeric_limits<std::uint64_t>::max()) {
  const bool has_end = max != std::numeric_limits<std::uint64_t>::max();
  const std::string range =
      has_end ? fmt::format("from {} to {}", min, max) : fmt::format("from {} on", min);
  const auto fault = [min, max, range](std::string& text) -> std::string {
    std::uint64_t value = 0;
    std::string why = number_text::fault_of(text, value, number_text::Tail::kNone);
    if (!why.empty()) return why + ": give a whole number " + range;
    if (value < min || value > max) return fmt::format("'{}' is no whole number {}", text, range);
    text = std::to_string(value);
    return {};
  };
  std::string shown = min == 1 ? "POSITIVE" : "";
  if (has_end) shown = fmt::format("UINT in [{} - {}]", min, max);
  return CLI::Validator(fault, shown, "whole_number");
}

// A number of bytes with or without a unit, which CLI::AsSizeValue reads after this check.
inline CLI::Validator size_with_unit() {
  const auto fault = [](std::string& text) {
    std::uint64_t value = 0;
    return number_text::fault_of(text, value, number_text::Tail::kUnit);
  };
  return CLI::Validator(fault, "", "size_with_unit");
}

// A finite number from `min` to `max`.
inline CLI::Validator real_number(double min, double max = std::numeric_limits<double>::max()) {
  const bool has_end = max != std::numeric_limits<double>::max();
  const std::string range =
      has_end ? fmt::format("from {:g} to {:g}", min, max) : fmt::format("from {:g} on", min);
  const auto fault = [min, max, range](const std::string& text) {
    double value = 0;
    const bool is_good = CLI::detail::lexical_cast(text, value) && std::isfinite(value) &&
                         value >= min && value <= max;
    return is_good ? std::string() : fmt::format("'{}' is no finite number {}", text, range);
  };
  return CLI::Validator(fault, has_end ? fmt::format("FLOAT in [{:g} - {:g}]", min, max) : "",
                        "real_number");
}

}  // namespace sparcl::tool
