// Versions of which the publisher tells, and which come from the store.

#include <fmt/format.h>

#include <algorithm>

#include "src/api/store_fallback.hpp"
#include "src/base/log.hpp"
#include "src/net/socket.hpp"

namespace sparcl::api {
namespace {

using replication::Subscriber;

// All heuristic, in seconds.
constexpr double kFirstPause = 0.02, kLongestPause = 1,  // between two looks for a version
    kToldPiece = 0.2;             // of a wait, then the connection is looked at
constexpr double kShorter = 0.7;  // so much of its delay the next first look has after a hit
// The first looks ask for the next record alone; then the store may have gone another path.
constexpr int kShortLooks = 2;

}  // namespace

void ToldWait::begin(double told_at, double now) {
  if (is_on()) return;
  begun_at_ = now;
  told_at_ = told_at;
  due_ = told_at + delay_s_;
  pause_s_ = kFirstPause;
  misses_ = 0;
}

// The second look is when the last version was there.
void ToldWait::missed(double now) {
  due_ = now + pause_s_;
  if (misses_ == 0) due_ = std::max(due_, told_at_ + good_s_);
  if (misses_ > 0) pause_s_ = std::min(2 * pause_s_, kLongestPause);
  ++misses_;
}

void ToldWait::found(double now) {
  const double took = std::clamp(now - told_at_, 0.0, kLongestPause);
  good_s_ = misses_ > 0 ? took : std::min(delay_s_, took);
  delay_s_ = misses_ > 0 ? good_s_ : kShorter * good_s_;
  end();
}

Result<Subscriber::Swap> StoreFallback::next_told(Subscriber& subscriber, double seconds) {
  const double deadline = net::monotonic_seconds() + std::clamp(seconds, 0.0, 1e8);
  for (;;) {
    wait_for_word(subscriber, deadline);
    Result<Subscriber::Swap> swap = subscriber.next(0);  // a version if the publisher sends one
    const double now = net::monotonic_seconds();
    const Subscriber::Told told = subscriber.told();
    const bool is_error = !swap.ok() && is_told_at_once(swap.status().code());
    Taken taken;
    if (!swap.ok() && !is_error && told.is_connected) taken = look_if_told(subscriber, told, now);
    const bool is_away = !swap.ok() && !told.is_connected && !subscriber.trouble().ok();
    if (!taken) taken = look_if_away(subscriber, is_away, now);
    if (swap.ok() || taken) leave_publisher(subscriber);
    if (taken) return std::move(*taken);
    if (swap.ok() || is_error) return swap;
    if (now >= deadline) return subscriber.nothing_newer(seconds);
  }
}

// From the publisher; while the store lacks a version, until the next look.
void StoreFallback::wait_for_word(Subscriber& subscriber, double deadline) const {
  const double now = net::monotonic_seconds();
  const Subscriber::Told told = subscriber.told();
  double until = std::min(deadline, now + kToldPiece);
  if (told.is_connected && told.is_newer() && !asks_publisher_)
    until = std::min(until, wait_.is_on() ? wait_.due() : now);
  subscriber.wait_until_told(std::max(told.held, told.newest), std::max(until - now, 0.0));
}

StoreFallback::Taken StoreFallback::look_if_told(Subscriber& subscriber,
                                                 const Subscriber::Told& told, double now) {
  if (!told.is_newer()) {
    leave_publisher(subscriber);
    return std::nullopt;
  }
  wait_.begin(told.newest_at, now);
  if (asks_publisher_ || now < wait_.due()) return std::nullopt;
  const Result<std::optional<store::VersionRecord>> record = find(told);
  Taken taken;
  Status why = record.status();
  if (record.ok() && *record) {
    taken = take(subscriber, **record);
    why = taken->status();
  }
  if (taken && taken->ok()) {
    wait_.found(now);
    return taken;
  }
  if (!why.ok()) tell_failure("though the publisher has told of one", why, now);
  wait_.missed(net::monotonic_seconds());
  if (wait_.lasts(now) >= options_.patience_s) ask_publisher(subscriber, told.newest, why);
  return std::nullopt;
}

// nullopt: the store has nothing newer yet.
Result<std::optional<store::VersionRecord>> StoreFallback::find(const Subscriber::Told& told) {
  std::optional<store::VersionRecord> found;
  if (chain_.known() && wait_.misses() < kShortLooks) return chain_.next_of(told.newest);
  SPARCL_ASSIGN_OR_RETURN(found, chain_.newest());
  if (found && found->version <= told.held) found.reset();
  return found;
}

void StoreFallback::ask_publisher(Subscriber& subscriber, std::uint64_t version,
                                  const Status& why) {
  log_warn(
      "{}: version {} did not arrive within {:g} s{}: the publisher sends it. Check that the "
      "publisher "
      "writes to this store, or raise store_patience_ms (--store-patience)",
      objects_->location_of(""), version, options_.patience_s,
      why.ok() ? std::string() : fmt::format(" ({})", why.message()));
  asks_publisher_ = true;
  options_.brought.reset();  // the publisher's bytes may be written over it
  subscriber.only_told(false);
}

void StoreFallback::leave_publisher(Subscriber& subscriber) {
  wait_.end();
  if (std::exchange(asks_publisher_, false)) subscriber.only_told(true);
}

}  // namespace sparcl::api
