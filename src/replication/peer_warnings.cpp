#include "src/replication/peer_warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "src/base/log.hpp"

namespace sparcl::replication {
namespace {

constexpr double kWarningWindow = 60;  // seconds; heuristic, as is all here
constexpr int kNamedInWindow = 20;     // lines of one kind
constexpr std::size_t kNamedInSummary = 20;

}  // namespace

void PeerWarnings::say(const std::string& kind, const std::string& peer, const std::string& text) {
  const std::uint64_t times = repeated_.count(fmt::format("{} {}", peer, kind), now_);
  if (times == 0) return;
  Kind& of = kinds_[kind];
  if (now_ - of.since >= kWarningWindow) {
    summarise(kind, of);
    of = {now_, 0, 0, {}};
  }
  if (of.named < kNamedInWindow) {
    ++of.named;
    return log_warn("replication: {}{}", text, times_text(times));
  }
  ++of.held_back;
  if (of.names.size() < kNamedInSummary) of.names.push_back(peer);
}

void PeerWarnings::tick(double now) {
  now_ = now;
  for (auto& [kind, of] : kinds_) {
    if (now - of.since < kWarningWindow) continue;
    summarise(kind, of);
    of = {now, 0, 0, {}};
  }
}

void PeerWarnings::summarise(const std::string& kind, Kind& of) {
  if (of.held_back == 0) return;
  const std::uint64_t unnamed = of.held_back - of.names.size();
  log_warn("replication: {} more {}: {}{}", of.held_back, kind, fmt::join(of.names, "; "),
           unnamed > 0 ? fmt::format("; and {} others", unnamed) : "");
}

}  // namespace sparcl::replication
