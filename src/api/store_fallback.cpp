#include "src/api/store_fallback.hpp"

#include <algorithm>

#include "src/api/stored_state.hpp"
#include "src/base/log.hpp"
#include "src/net/socket.hpp"

namespace sparcl::api {
namespace {

using replication::Subscriber;

constexpr double kPatience =
                     1,   // seconds without the publisher, for a short interruption; heuristic
    kLookSeconds = 1,     // between two looks at the store
    kPieceSeconds = 0.2;  // of a wait for the publisher

// As of sparclSubscriberNext.
bool is_told_at_once(Code code) {
  return replication::is_lasting(code) || code == Code::kCorrupt || code == Code::kStale;
}

Result<Subscriber::Swap> restore_newest(store::VersionReader& reader,
                                        const replication::ReplicatedState& into,
                                        const std::optional<model::HeldVersion>& held,
                                        std::uint64_t at_least) {
  SPARCL_ASSIGN_OR_RETURN(const store::RestoredVersion restored,
                          reader.restore(0, held, chain_state(into), at_least));
  Subscriber::Swap swap;
  swap.version = restored.record.version;
  swap.hash = restored.record.target_hash;
  swap.changed = restored.changed;
  swap.stream_bytes = restored.object_bytes;
  swap.updates = std::max(restored.objects, 1);
  swap.by_anchor = restored.by_anchor;
  return swap;
}

}  // namespace

StoreFallback::StoreFallback(std::unique_ptr<store::ObjectStore> objects,
                             store::ChainTrustRef trust, std::int64_t lease_s)
    : objects_(std::move(objects)),
      chain_(*objects_, std::move(trust)),
      lease_(*objects_, lease_s),
      reader_(chain_, lease_) {}

Result<Subscriber::Swap> StoreFallback::next(Subscriber& subscriber, double seconds) {
  const double deadline = net::monotonic_seconds() + std::clamp(seconds, 0.0, 1e8);
  for (;;) {
    const double left = std::max(deadline - net::monotonic_seconds(), 0.0);
    Result<Subscriber::Swap> swap = subscriber.next(std::min(left, kPieceSeconds));
    const double now = net::monotonic_seconds();
    if (swap.ok() || subscriber.trouble().ok()) {
      in_trouble_since_.reset();
    } else if (auto taken = look(subscriber, now)) {
      return std::move(*taken);
    }
    if (swap.ok() || is_told_at_once(swap.status().code())) return swap;
    if (now >= deadline) return subscriber.nothing_newer(seconds);
  }
}

std::optional<Result<Subscriber::Swap>> StoreFallback::look(Subscriber& subscriber, double now) {
  if (!in_trouble_since_) in_trouble_since_ = now;
  if (now - *in_trouble_since_ < kPatience || now - looked_at_ < kLookSeconds) return std::nullopt;
  looked_at_ = now;
  const Result<std::optional<store::VersionRecord>> newest = chain_.newest();
  const bool has_newer = newest.ok() && *newest && (*newest)->version > subscriber.versions().held;
  if (newest.ok() && !has_newer) return std::nullopt;
  Result<Subscriber::Swap> taken =
      newest.ok() ? take(subscriber) : Result<Subscriber::Swap>(newest.status());
  if (taken.ok()) return taken;
  const std::uint64_t times = failures_.count(std::string(taken.status().message()), now);
  if (times > 0)
    log_warn("the store gives no version while the publisher is away: {}{}",
             taken.status().message(), times_text(times));
  return std::nullopt;
}

Result<Subscriber::Swap> StoreFallback::take(Subscriber& subscriber) {
  const std::uint64_t at_least = subscriber.versions().held + 1;
  Result<Subscriber::Swap> taken = subscriber.take_elsewhere(
      [&](const replication::ReplicatedState& into, const std::optional<model::HeldVersion>& held) {
        return restore_newest(reader_, into, held, at_least);
      });
  if (taken.ok())
    log_info("version {} was taken from {}, as the publisher cannot be reached", taken->version,
             objects_->location_of(""));
  return taken;
}

}  // namespace sparcl::api
