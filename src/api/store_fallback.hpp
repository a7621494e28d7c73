#pragma once
// A store from which a subscriber takes versions: while its publisher cannot be reached, or always.
// Then the publisher only tells of versions, and sends what the store does not get in time.

#include <memory>
#include <optional>
#include <utility>

#include "src/base/repeated_messages.hpp"
#include "src/replication/subscriber.hpp"
#include "src/store/version_reader.hpp"

namespace sparcl::api {

// Waits for versions of which a publisher has told, and which its store gets a little later.
class ToldWait {
 public:
  bool is_on() const { return begun_at_.has_value(); }
  // The user waits for a version that was told of at `told_at`.
  void begin(double told_at, double now);
  void end() { begun_at_.reset(); }
  double due() const { return due_; }                          // the next look
  double lasts(double now) const { return now - *begun_at_; }  // that the user waits
  int misses() const { return misses_; }
  void missed(double now);
  void found(double now);
  // No look for so long.
  void rest(double now, double seconds) { due_ = now + seconds; }

 private:
  std::optional<double> begun_at_;
  double told_at_ = 0, due_ = 0, pause_s_ = 0;
  int misses_ = 0;
  // From the publisher's word to the first look, and to one at which the last version was there.
  double delay_s_ = 0, good_s_ = 0;
};

class StoreFallback {
 public:
  static constexpr double kPatience = 5;  // seconds
  struct Options {
    store::ChainTrustRef trust;
    std::int64_t lease_s = store::kLeaseSeconds;
    // Versions always come from here: the subscriber has the option only_told.
    bool is_first = false;
    double patience_s = kPatience;  // until the publisher sends a version that is not here
    // With is_first: the state hash of what the arrays hold, as the user's own file.
    std::optional<Hash128> brought = {};
  };
  StoreFallback(std::unique_ptr<store::ObjectStore> objects, Options options);
  ~StoreFallback() { lease_.release(); }
  StoreFallback(const StoreFallback&) = delete;
  StoreFallback& operator=(const StoreFallback&) = delete;

  // Waits as subscriber.next() does. While the publisher is in trouble the store is looked at, and
  // its newest version is taken if it is newer than what is held.
  Result<replication::Subscriber::Swap> next(replication::Subscriber& subscriber, double seconds);
  bool is_first() const { return options_.is_first; }

 private:
  // As of sparclSubscriberNext.
  static bool is_told_at_once(Code code);
  using Taken = std::optional<Result<replication::Subscriber::Swap>>;  // nullopt: nothing

  Result<replication::Subscriber::Swap> next_beside(replication::Subscriber& subscriber,
                                                    double seconds);
  Taken look_if_away(replication::Subscriber& subscriber, bool is_away, double now);
  Result<replication::Subscriber::Swap> take(replication::Subscriber& subscriber,
                                             const store::VersionRecord& record);
  void note_written(const Status& status);
  void tell_failure(const char* when, const Status& why, double now);

  // With is_first (store_notices.cpp).
  Result<replication::Subscriber::Swap> next_told(replication::Subscriber& subscriber,
                                                  double seconds);
  void wait_for_word(replication::Subscriber& subscriber, double deadline) const;
  Taken look_if_told(replication::Subscriber& subscriber, const replication::Subscriber::Told& told,
                     double now);
  Result<std::optional<store::VersionRecord>> find(const replication::Subscriber::Told& told);
  // Whether the publisher may have another version than what is held.
  bool is_wanted(const replication::Subscriber::Told& told) const;
  void ask_publisher(replication::Subscriber& subscriber, std::uint64_t version, const Status& why);
  void leave_publisher(replication::Subscriber& subscriber);

  std::unique_ptr<store::ObjectStore> objects_;
  Options options_;
  store::Chain chain_;
  store::Lease lease_;
  store::VersionReader reader_;
  std::optional<double> away_since_;
  double looked_at_ = -1e9;
  RepeatedMessages failures_;
  ToldWait wait_;
  std::uint64_t newest_here_ = 0;  // version, when the store was looked at
  double rest_s_ = 0;              // between two looks while the publisher sends
  // What is held is this publisher's version of its number.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> agreed_;  // version, epoch
};

}  // namespace sparcl::api
