#include "src/replication/report_text.hpp"

#include <fmt/format.h>

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxShownNameBytes = 200;  // heuristic, as is the next
constexpr std::size_t kNameEndBytes = 60;   // an address of IPv6 with its port, in brackets

bool is_inside_character(std::string_view text, std::size_t at) {
  return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

}  // namespace

std::string shown_name(std::string_view name) {
  constexpr std::string_view kGap = "...";
  if (name.size() <= kMaxShownNameBytes) return std::string(name);
  std::size_t front = kMaxShownNameBytes - kNameEndBytes - kGap.size(),
              back = name.size() - kNameEndBytes;
  while (front > 0 && is_inside_character(name, front)) --front;
  while (back < name.size() && is_inside_character(name, back)) ++back;
  return fmt::format("{}{}{}", name.substr(0, front), kGap, name.substr(back));
}

ReportText::ReportText(const ReportFields& head, std::string_view list, std::size_t max_bytes)
    : text_(head.text()), max_bytes_(max_bytes) {
  text_.pop_back();
  text_ += fmt::format(",\"{}\":[", list);
}

bool ReportText::add(const ReportFields& entry) {
  const std::string added = entry.text();
  if (text_.size() + 1 + added.size() + std::string_view(kEnd).size() > max_bytes_) return false;
  if (!is_first_) text_ += ',';
  is_first_ = false;
  text_ += added;
  return true;
}

}  // namespace sparcl::replication
