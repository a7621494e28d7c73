#include "src/aggregate/sum/waiting_parts.hpp"

#include <algorithm>
#include <utility>

#include "src/base/files/unnamed_file.hpp"
#include "src/base/log.hpp"

namespace sparcl::aggregate {
namespace {

constexpr std::uint64_t kWaitingTimes = 2;  // the largest part stays in memory; heuristic
constexpr std::uint64_t kFileShare = 1024;  // a smaller part of min_bytes is no file; heuristic
constexpr int kPause = 256;                 // parts; heuristic

}  // namespace

Buffer WaitingParts::put(Buffer part) {
  largest_ = std::max<std::uint64_t>(largest_, part.size());
  const std::uint64_t most = std::max(min_bytes_, kWaitingTimes * largest_);
  const bool has_room =
      held_->memory + part.size() <= most || part.size() < min_bytes_ / kFileShare;
  const bool is_paused = pause_ > 0 && pause_-- > 0;
  if (folder_.empty() || has_room || is_paused) return counted(std::move(part), &Held::memory);
  Result<Buffer> kept = to_unnamed_file(folder_, part.bytes());
  if (kept.ok()) return counted(std::move(*kept), &Held::files);
  log_warn("aggregate: contributions wait in memory: {}", kept.status().message());
  pause_ = kPause;
  return counted(std::move(part), &Held::memory);
}

Buffer WaitingParts::counted(Buffer part, std::atomic<std::uint64_t> Held::*kind) const {
  if (part.size() == 0) return part;
  const std::size_t size = part.size();
  std::byte* const data = part.data();
  ((*held_).*kind).fetch_add(size, std::memory_order_relaxed);  // the deleter takes it away
  std::shared_ptr<std::byte[]> storage(
      data, [held = held_, kind, size, part = std::move(part)](std::byte*) {
        ((*held).*kind).fetch_sub(size, std::memory_order_relaxed);
      });
  return Buffer(std::move(storage), 0, size);
}

}  // namespace sparcl::aggregate
