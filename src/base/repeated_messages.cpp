#include "src/base/repeated_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sparcl {
namespace {

constexpr double kFirstPause = 60;  // seconds; twice as long each time; heuristic, as is all here
constexpr double kLastPause = 3600;
constexpr double kForgotten = 600;  // after this time without a message
constexpr std::size_t kMaxKeys = 256;

}  // namespace

std::uint64_t RepeatedMessages::count(const std::string& key, double now) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end() || now - found->seen_at > kForgotten) {
    if (found != entries_.end()) entries_.erase(found);
    if (entries_.size() >= kMaxKeys)
      entries_.erase(std::ranges::min_element(entries_, {}, &Entry::seen_at));
    entries_.push_back({key, now, now, kFirstPause, 0});
    return 1;
  }
  found->seen_at = now;
  ++found->unsaid;
  if (now - found->said_at < found->pause_s) return 0;
  found->said_at = now;
  found->pause_s = std::min(2 * found->pause_s, kLastPause);
  return std::exchange(found->unsaid, 0);
}

std::string times_text(std::uint64_t count) {
  return count > 1 ? fmt::format(" ({} times since it was last said)", count) : std::string();
}

}  // namespace sparcl
