#include "src/api/store_fallback.hpp"

#include <algorithm>

#include "src/api/stored_state.hpp"
#include "src/base/log.hpp"
#include "src/net/socket.hpp"

namespace sparcl::api {
namespace {

using replication::Subscriber;

constexpr double kAwayPatience =
                     1,   // seconds without the publisher, for a short interruption; heuristic
    kLookSeconds = 1,     // between two looks at the store
    kPieceSeconds = 0.2;  // of a wait for the publisher

Subscriber::Swap swap_of(const store::RestoredVersion& restored) {
  Subscriber::Swap swap;
  swap.version = restored.record.version;
  swap.hash = restored.record.target_hash;
  swap.changed = restored.changed;
  swap.stream_bytes = restored.object_bytes;
  swap.updates = std::max(restored.objects, 1);
  swap.by_anchor = restored.by_anchor;
  swap.from_store = true;
  return swap;
}

}  // namespace

StoreFallback::StoreFallback(std::unique_ptr<store::ObjectStore> objects, Options options)
    : objects_(std::move(objects)),
      options_(std::move(options)),
      chain_(*objects_, options_.trust),
      lease_(*objects_, options_.lease_s),
      reader_(chain_, lease_, store::VersionReader::Parts::kRefused) {}

bool StoreFallback::is_told_at_once(Code code) {
  return replication::is_lasting(code) || code == Code::kCorrupt || code == Code::kStale;
}

Result<Subscriber::Swap> StoreFallback::next(Subscriber& subscriber, double seconds) {
  return options_.is_first ? next_told(subscriber, seconds) : next_beside(subscriber, seconds);
}

Result<Subscriber::Swap> StoreFallback::next_beside(Subscriber& subscriber, double seconds) {
  const double deadline = net::monotonic_seconds() + std::clamp(seconds, 0.0, 1e8);
  for (;;) {
    const double left = std::max(deadline - net::monotonic_seconds(), 0.0);
    Result<Subscriber::Swap> swap = subscriber.next(std::min(left, kPieceSeconds));
    note_written(swap.status());
    const double now = net::monotonic_seconds();
    const bool is_away = !swap.ok() && !subscriber.trouble().ok();
    if (Taken taken = look_if_away(subscriber, is_away, now)) return std::move(*taken);
    if (swap.ok() || is_told_at_once(swap.status().code())) return swap;
    if (now >= deadline) return subscriber.nothing_newer(seconds);
  }
}

// What the arrays held at first is not known any more once the publisher's bytes were written, or
// damage was found.
void StoreFallback::note_written(const Status& status) {
  if (status.ok() || status.code() == Code::kCorrupt) options_.brought.reset();
}

StoreFallback::Taken StoreFallback::look_if_away(Subscriber& subscriber, bool is_away, double now) {
  if (!is_away) away_since_.reset();
  if (is_away && !away_since_) away_since_ = now;
  if (!is_away || now - *away_since_ < kAwayPatience || now - looked_at_ < kLookSeconds)
    return std::nullopt;
  looked_at_ = now;
  constexpr const char* kWhen = "while the publisher is away";
  const Result<std::optional<store::VersionRecord>> newest = chain_.newest();
  if (!newest.ok()) tell_failure(kWhen, newest.status(), now);
  if (!newest.ok() || !*newest || (*newest)->version <= subscriber.told().held) return std::nullopt;
  Result<Subscriber::Swap> taken = take(subscriber, **newest);
  if (!taken.ok()) {
    tell_failure(kWhen, taken.status(), now);
    return std::nullopt;
  }
  log_info("version {} was taken from {}, as the publisher cannot be reached", taken->version,
           objects_->location_of(""));
  return taken;
}

// What was removed meanwhile is not needed by a later version: the next look begins anew.
Result<Subscriber::Swap> StoreFallback::take(Subscriber& subscriber,
                                             const store::VersionRecord& record) {
  Result<Subscriber::Swap> taken = subscriber.take_elsewhere(
      [&](const replication::ReplicatedState& into,
          const std::optional<model::HeldVersion>& held) -> Result<Subscriber::Swap> {
        std::optional<model::HeldVersion> from = held;
        if (!held && options_.brought) {
          SPARCL_ASSIGN_OR_RETURN(from, reader_.find_state(*options_.brought));
        }
        SPARCL_ASSIGN_OR_RETURN(const store::RestoredVersion restored,
                                reader_.restore_record(record, from, chain_state(into)));
        return swap_of(restored);
      });
  if (taken.ok()) options_.brought.reset();
  if (taken.status().code() == Code::kCorrupt) chain_.forget();
  return taken;
}

void StoreFallback::tell_failure(const char* when, const Status& why, double now) {
  const std::uint64_t times = failures_.count(std::string(why.message()), now);
  if (times > 0)
    log_warn("{}: no version could be read {}: {}{}", objects_->location_of(""), when,
             why.message(), times_text(times));
}

}  // namespace sparcl::api
