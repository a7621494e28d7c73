#include "src/replication/report_text.hpp"

#include <fmt/format.h>

#include <span>

#include "src/trust/sha256.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxShownNameBytes = 200;  // heuristic, as is the next
constexpr std::size_t kNameEndBytes = 60;        // an address of IPv6 with its port, in brackets
constexpr std::size_t kNameHashDigits = 16;
constexpr std::size_t kMaxLeftOutBytes = 21;  // the digits of 64 bits, and a brace

bool is_inside_character(std::string_view text, std::size_t at) {
  return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

// In place of what is left out, so that different names stay different.
std::string gap_of(std::string_view name) {
  trust::Sha256 hash;
  hash.update(std::as_bytes(std::span(name)));
  const Result<trust::Sha256::Digest> digest = hash.finish();
  if (!digest.ok()) return "...";
  return fmt::format("...{}...", trust::to_hex(*digest).substr(0, kNameHashDigits));
}

}  // namespace

std::string shown_name(std::string_view name) {
  if (name.size() <= kMaxShownNameBytes) return std::string(name);
  const std::string gap = gap_of(name);
  std::size_t front = kMaxShownNameBytes - kNameEndBytes - gap.size(),
              back = name.size() - kNameEndBytes;
  while (front > 0 && is_inside_character(name, front)) --front;
  while (back < name.size() && is_inside_character(name, back)) ++back;
  return fmt::format("{}{}{}", name.substr(0, front), gap, name.substr(back));
}

ReportText::ReportText(const ReportFields& head, std::string_view list, std::size_t max_bytes)
    : text_(head.text()),
      end_(fmt::format("],\"{}_left_out\":", list)),
      max_bytes_(max_bytes - kMaxLeftOutBytes) {
  text_.pop_back();
  text_ += fmt::format(",\"{}\":[", list);
}

bool ReportText::add(const ReportFields& entry) {
  const std::string added = entry.text();
  if (text_.size() + 1 + added.size() + end_.size() > max_bytes_) return false;
  if (!is_first_) text_ += ',';
  is_first_ = false;
  text_ += added;
  return true;
}

std::string ReportText::text(std::uint64_t left_out) const {
  return fmt::format("{}{}{}}}", text_, end_, left_out);
}

}  // namespace sparcl::replication
