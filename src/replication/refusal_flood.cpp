#include "src/replication/refusal_flood.hpp"

#include <fmt/format.h>

#include <numeric>

namespace sparcl::replication {
namespace {

std::uint64_t sum_of(const PeerCounts::ByReason& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::string flood_text(const PeerCounts::ByReason& counts, double seconds) {
  std::string reasons;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0)
      reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", kRefusalNames[i], counts[i]);
  }
  return fmt::format(
      "{} connections were refused or ended within {:.0f} s ({}). New replicas may be delayed. "
      "Keep programs "
      "without a key away from this port, for example by a firewall; sparcl status counts the "
      "refusals",
      sum_of(counts), seconds, reasons);
}

}  // namespace

std::optional<std::string> RefusalFlood::look(const PeerCounts& counts, double now) {
  if (begin_ < 0) begin_ = now;
  if (now - begin_ >= kWindow) {
    PeerCounts::ByReason of_window;
    for (std::size_t i = 0; i < seen_.size(); ++i) of_window[i] = counts.by_reason[i] - seen_[i];
    if (sum_of(of_window) > kMaxUnsaid) {
      for (std::size_t i = 0; i < seen_.size(); ++i) unsaid_[i] += of_window[i];
      unsaid_s_ += now - begin_;
    }
    seen_ = counts.by_reason;
    begin_ = now;
  }
  if (unsaid_s_ == 0 || now - said_at_ < kPause) return std::nullopt;
  std::optional<std::string> text = flood_text(unsaid_, unsaid_s_);
  unsaid_ = {};
  unsaid_s_ = 0;
  said_at_ = now;
  return text;
}

}  // namespace sparcl::replication
