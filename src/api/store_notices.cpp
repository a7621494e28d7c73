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
    kToldPiece = 0.2,             // of a wait, then the connection is looked at
    kLongestRest = 60;            // between two looks while the publisher sends
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
    note_written(swap.status());
    const double now = net::monotonic_seconds();
    const Subscriber::Told told = subscriber.told();
    const bool is_error = !swap.ok() && is_told_at_once(swap.status().code());
    Taken taken;
    if (!told.is_connected) wait_.end();
    if (!swap.ok() && !is_error && told.is_connected) taken = look_if_told(subscriber, told, now);
    const bool is_away = !swap.ok() && !told.is_connected && !subscriber.trouble().ok();
    if (!taken) taken = look_if_away(subscriber, is_away, now);
    if (taken) leave_publisher(subscriber);
    if (!is_wanted(told) && !told.is_asked) wait_.end();
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
  if (told.is_connected && (is_wanted(told) || told.is_asked))
    until = std::min(until, wait_.is_on() ? wait_.due() : now);
  subscriber.wait_until_told(std::max(told.held, told.newest), std::max(until - now, 0.0));
}

// A version of this number may have come from a publisher that was replaced since, before the store
// had it: the next one may have made another one.
bool StoreFallback::is_wanted(const Subscriber::Told& told) const {
  if (told.is_newer()) return true;
  return told.held != 0 && told.held == told.newest && !told.is_of_epoch &&
         agreed_ != std::pair(told.held, told.epoch);
}

StoreFallback::Taken StoreFallback::look_if_told(Subscriber& subscriber,
                                                 const Subscriber::Told& told, double now) {
  if (!is_wanted(told) && !told.is_asked) return std::nullopt;
  wait_.begin(told.newest_at, now);
  if (now < wait_.due()) return std::nullopt;
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
  if (told.is_asked && !told.is_newer() && newest_here_ >= told.held) {  // it works again
    leave_publisher(subscriber);
    return std::nullopt;
  }
  if (!why.ok()) tell_failure("though the publisher has told of one", why, now);
  const double then = net::monotonic_seconds();
  wait_.missed(then);
  if (told.is_asked) {
    // A store that fails may take long to say so.
    rest_s_ = why.ok() ? std::max(options_.patience_s, kLongestPause)
                       : std::min(2 * rest_s_, kLongestRest);
    wait_.rest(then, rest_s_);
  } else if (wait_.misses() > kShortLooks + 1 && wait_.lasts(then) >= options_.patience_s) {
    ask_publisher(subscriber, told.newest, why);
  }
  return std::nullopt;
}

// nullopt: the store has nothing newer yet.
Result<std::optional<store::VersionRecord>> StoreFallback::find(const Subscriber::Told& told) {
  std::optional<store::VersionRecord> found;
  if (told.is_newer() && chain_.known() && wait_.misses() < kShortLooks) {
    SPARCL_ASSIGN_OR_RETURN(found, chain_.next_of(told.newest));
  } else {
    SPARCL_ASSIGN_OR_RETURN(found, chain_.newest());
  }
  newest_here_ = found ? found->version : newest_here_;
  const bool is_same_number = found && found->version == told.held && !told.is_newer();
  if (is_same_number && found->target_hash == told.hash) agreed_ = {told.held, told.epoch};
  if (is_same_number && found->target_hash != told.hash) return found;
  if (found && found->version <= told.held) found.reset();
  return found;
}

void StoreFallback::ask_publisher(Subscriber& subscriber, std::uint64_t version,
                                  const Status& why) {
  log_warn(
      "{}: version {} did not arrive within {:g} s{}: the publisher sends it. Check that the "
      "publisher writes to this store, or raise store_patience_ms (--store-patience)",
      objects_->location_of(""), version, options_.patience_s,
      why.ok() ? std::string() : fmt::format(" ({})", why.message()));
  options_.brought.reset();  // the publisher's bytes may be written over it
  subscriber.only_told(false);
  rest_s_ = std::max(options_.patience_s, kLongestPause);
  wait_.rest(net::monotonic_seconds(), rest_s_);
}

void StoreFallback::leave_publisher(Subscriber& subscriber) {
  wait_.end();
  subscriber.only_told(true);
}

}  // namespace sparcl::api
