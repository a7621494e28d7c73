#include "src/aggregate/sum/waiting_parts.hpp"

#include <algorithm>
#include <utility>

#include "src/base/files/unnamed_file.hpp"
#include "src/base/log.hpp"

namespace sparcl::aggregate {
namespace {

constexpr std::uint64_t kWaitingTimes = 2;  // the largest part stays in memory; heuristic

}  // namespace

Buffer WaitingParts::put(Buffer part) {
  largest_ = std::max<std::uint64_t>(largest_, part.size());
  const std::uint64_t most = std::max(min_bytes_, kWaitingTimes * largest_);
  if (folder_.empty() || has_failed_ || held_->memory + part.size() <= most)
    return counted(std::move(part), &Held::memory);
  Result<Buffer> kept = to_unnamed_file(folder_, part.bytes());
  if (kept.ok()) return counted(std::move(*kept), &Held::files);
  log_warn("aggregate: contributions wait in memory: {}", kept.status().message());
  has_failed_ = true;
  return counted(std::move(part), &Held::memory);
}

Buffer WaitingParts::counted(Buffer part, std::atomic<std::uint64_t> Held::*kind) const {
  if (part.size() == 0) return part;
  const std::size_t size = part.size();
  std::byte* const data = part.data();
  std::shared_ptr<std::byte[]> storage(
      data, [held = held_, kind, size, part = std::move(part)](std::byte*) {
        ((*held).*kind).fetch_sub(size, std::memory_order_relaxed);
      });
  ((*held_).*kind).fetch_add(size, std::memory_order_relaxed);
  return Buffer(std::move(storage), 0, size);
}

}  // namespace sparcl::aggregate
