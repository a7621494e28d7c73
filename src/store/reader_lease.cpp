#include "src/store/reader_lease.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <vector>

#include "src/base/log.hpp"
#include "src/store/random_name.hpp"

namespace sparcl::store {
namespace {

constexpr const char* kLeases = "leases";
constexpr std::size_t kMaxLeaseBytes = 64;

std::int64_t steady_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// 0: it is none, and needs all.
Result<std::uint64_t> read_lease(ObjectStore& store, const std::string& key) {
  const auto content = store.read_all(key, kMaxLeaseBytes);
  if (!content.ok() && content.status().code() == Code::kCorrupt) return std::uint64_t{0};
  SPARCL_RETURN_IF_ERROR(content.status());
  if (!*content) return UINT64_MAX;  // it was removed meanwhile
  std::uint64_t number = 0;
  const auto* const text = reinterpret_cast<const char*>((*content)->data());
  (void)std::from_chars(text, text + (*content)->size(), number);
  return number;
}

}  // namespace

Result<bool> Lease::hold(std::uint64_t number) {
  const std::int64_t now = steady_seconds();
  const bool is_young = has_tried_ && now - tried_s_ < seconds_ / 3;
  if (is_young && (key_.empty() || number >= number_)) return false;
  // Pruning removes leases that have expired: one that is late gets another name.
  if (has_tried_ && now - tried_s_ >= seconds_) key_.clear();
  has_tried_ = true;
  tried_s_ = now;
  if (key_.empty()) {
    SPARCL_ASSIGN_OR_RETURN(const std::string name, random_name());
    key_ = std::string(kLeases) + "/" + name;
  }
  const std::string text = std::to_string(number) + "\n";
  const std::array pieces{std::as_bytes(std::span(text))};
  if (const Status written = store_.replace(key_, pieces); !written.ok()) {
    log_info("no lease on the store's versions: they are kept for {} s after pruning begins: {}",
             seconds_, written.message());
    key_.clear();
    return false;
  }
  number_ = number;
  return true;
}

void Lease::release() {
  if (key_.empty()) return;
  if (const Status removed = store_.remove(key_); !removed.ok())
    log_info("a lease that nobody needs stays: {}", removed.message());
  key_.clear();
}

Result<std::optional<FirstLease>> first_leased(ObjectStore& store, std::int64_t now_s,
                                               std::int64_t seconds) {
  std::vector<ObjectInfo> live, old;
  SPARCL_RETURN_IF_ERROR(store.list(kLeases, [&](const ObjectInfo& each) {
    (now_s - each.written_s > seconds ? old : live).push_back(each);
    return true;
  }));
  for (const ObjectInfo& each : old) {  // its reader may have renewed it since the list was made
    SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> again, store.look(each.key));
    if (!again) continue;
    const std::int64_t age_s = now_s - again->written_s;
    if (age_s <= seconds) live.push_back(*again);
    if (age_s > 2 * std::max(seconds, kLeaseSeconds))
      SPARCL_RETURN_IF_ERROR(store.remove(each.key));
  }
  std::optional<FirstLease> first;
  for (const ObjectInfo& each : live) {
    SPARCL_ASSIGN_OR_RETURN(const std::uint64_t number, read_lease(store, each.key));
    if (!first || number < first->number)
      first = FirstLease{number, each.key, each.written_s + seconds};
  }
  return first;
}

}  // namespace sparcl::store
