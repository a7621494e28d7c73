// How what has come becomes what is held: next(), and the way back.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/base/stage_range.hpp"
#include "src/model/device_tensors.hpp"
#include "src/replication/publisher_epoch.hpp"
#include "src/replication/replica_record.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {
namespace {

constexpr double kClimbPatience =
    0.05;  // seconds without an update, then what is held is shown; and of all together, where
constexpr double kLongestClimb = 1;  // versions come as fast as they are applied; both heuristic
// Of an epoch that nobody signed, after the clock: what publishers without keys believe is a little
// more (PublisherEpoch).
constexpr std::uint64_t kMaxAheadNanoseconds = std::uint64_t{364} * 24 * 3600 * 1'000'000'000;

// The lock is let go of, and the flag says so, as long as this lives.
class Unlocked {
 public:
  Unlocked(std::unique_lock<std::mutex>& lock, bool& flag) : lock_(lock), flag_(flag) {
    flag_ = true;
    lock_.unlock();
  }
  ~Unlocked() {
    lock_.lock();
    flag_ = false;
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
  bool& flag_;
};

}  // namespace

// A pin that is reached is of these bytes, whatever another publisher calls its own.
bool Subscriber::may_lead_on(const StagedUpdate& update) const {
  const bool is_reached = pin_ != 0 && holds_published_ && held_.version == pin_;
  return back_ == Back::kNo && !is_reached && (pin_ == 0 || update.commit().version <= pin_);
}

bool Subscriber::may_swap() const {
  return !staged_.empty() && staged_.front()->is_checked() && may_lead_on(*staged_.front());
}

Result<Subscriber::Swap> Subscriber::next(double seconds) {
  const std::lock_guard one(using_);
  std::unique_lock lock(mutex_);
  const double deadline = net::monotonic_seconds() + std::clamp(seconds, 0.0, 1e8);
  Swap swap = unshown_;
  if (swap.is_news() || wait_for_news(lock, deadline)) {
    if (!damage_.ok()) {
      unshown_ = Swap();  // what repairs it is shown instead
      return std::exchange(damage_, Status());
    }
    Status status;
    if (back_ == Back::kWanted) {
      status = go_back(lock, swap);
    } else {
      status = climb_as_far_as_it_goes(lock, swap, deadline);
      if (swap.updates > 0) show_written();
    }
    wake_.wake();
    if (!status.ok() && swap.updates == unshown_.updates)
      return status;  // what is still to be shown waits for the next call
    if (!swap.is_news() && !lasting_.ok()) return std::exchange(lasting_, Status());
  }
  if (swap.is_news()) {
    SPARCL_RETURN_IF_ERROR(show_on_device(lock, swap));
    const std::shared_ptr<const Offer> proof = proof_;
    lock.unlock();
    keep_record(proof.get());
    if (options_.on_swap) options_.on_swap(swap.version);
    if (swap.damaged_blocks > 0) {
      log_warn(
          "replication: the bytes that this replica started with were damaged: {} of {} blocks "
          "differed from version {}: repaired",
          swap.damaged_blocks, state_.map->block_count(), swap.version);
    } else if (swap.by_repair) {
      log_warn("replication: the tensors hold version {} again: {} of {} elements were sent anew",
               swap.version, swap.changed, state_.map->element_count());
    }
    return swap;
  }
  return trouble_.ok() ? nothing_newer(seconds) : trouble_;
}

// Without the lock, by next() alone. The arrays hold it already: where it cannot be kept they do
// all the same.
void Subscriber::keep_record(const Offer* latest) try {
  const bool is_kept =
      options_.latest && latest != nullptr && options_.latest->commit == latest->commit;
  if (options_.record_path.empty() || latest == nullptr || is_kept) return;
  if (const Status status = save_replica_record(options_.record_path, *latest); !status.ok()) {
    return log_error(
        "replication: version {} cannot be remembered for this replica's next life: {}",
        latest->commit.version, status.message());
  }
  options_.latest = *latest;
} catch (const std::bad_alloc&) {
  log_error(
      "replication: the version that is held cannot be remembered for this replica's next life: "
      "there is no memory");
}

bool Subscriber::wait_for_news(std::unique_lock<std::mutex>& lock, double deadline) {
  const auto limit =
      std::chrono::duration<double>(std::max(deadline - net::monotonic_seconds(), 0.0));
  return came_.wait_for(lock, limit, [&] {
    return !damage_.ok() || !lasting_.ok() || back_ == Back::kWanted || may_swap();
  });
}

// What was applied is to be shown, whatever comes after it.
Status Subscriber::climb_as_far_as_it_goes(std::unique_lock<std::mutex>& lock, Swap& swap,
                                           double deadline) try {
  return climb(lock, swap, deadline);
} catch (const std::bad_alloc&) {
  return no_memory();
}

// Applies what is staged. One that is further behind is sent more only once this is held: it waits
// for that where it comes soon, so that users see the newest version, not each on the way.
Status Subscriber::climb(std::unique_lock<std::mutex>& lock, Swap& swap, double deadline) {
  const double until = std::min(deadline, net::monotonic_seconds() + kLongestClimb);
  for (;;) {
    // What came after the first is checked here: its base is held only now.
    while (!staged_.empty() && may_lead_on(*staged_.front()))
      SPARCL_RETURN_IF_ERROR(swap_front(lock, swap));
    if (held_.version >= (pin_ == 0 ? newest_ : std::min(newest_, pin_))) return {};
    wake_.wake();
    if (!wait_for_news(lock, std::min(until, net::monotonic_seconds() + kClimbPatience)) ||
        !may_swap())
      return {};
  }
}

Status Subscriber::nothing_newer(double seconds) const {
  const bool is_past_pin = pin_ != 0 && !holds_published_ && !staged_.empty() &&
                           staged_.front()->commit().version > pin_;
  if (is_past_pin) {
    return Status(trust_ == Trust::kDamaged ? Code::kCorrupt : Code::kTimeout,
                  fmt::format("{} this replica is pinned to version {}, which cannot be had any "
                              "more: version {} is here, once the pin is moved or taken away",
                              trust_ == Trust::kDamaged ? "the tensors are damaged, and"
                                                        : "no version is held:",
                              pin_, staged_.front()->commit().version));
  }
  return Status(
      Code::kTimeout,
      fmt::format("no newer version than {} has come within {:g} s{}", held_.version, seconds,
                  pin_ != 0 ? fmt::format("; this replica is pinned to version {}", pin_) : ""));
}

// The state that is written now, before the first update of a next() or after it. Without the lock.
ReplicatedState Subscriber::begin_writing(bool is_first) {
  if (buffers_ == nullptr) return state_;
  if (is_first) buffers_->catch_up(state_, way_back_);
  ReplicatedState written = state_;
  written.arrays = buffers_->back();
  return written;
}

void Subscriber::show_written() {
  if (buffers_ == nullptr) return;
  buffers_->exchange();
  state_.arrays = buffers_->front();
}

// Of tensors in device memory: their mirror holds it, and they come after. Nobody but a next()
// writes the mirror.
Status Subscriber::show_on_device(std::unique_lock<std::mutex>& lock, const Swap& swap) {
  if (state_.device == nullptr) return {};
  unshown_ = swap;
  lock.unlock();
  const StageRange range("copy to the device");
  Status status;
  try {
    status = state_.device->write(nullptr);
  } catch (const std::bad_alloc&) {
    status = no_memory();
  }
  lock.lock();
  if (!status.ok()) return status;
  unshown_ = Swap();
  shown_version_ = swap.version;
  return {};
}

std::uint64_t Subscriber::shown_version() const {
  return state_.device != nullptr ? shown_version_ : held_.version;
}

// Applies the first of what is staged. An error leaves the arrays as they were; it is then gone,
// and what came after it, unless only memory was missing.
Status Subscriber::swap_front(std::unique_lock<std::mutex>& lock, Swap& swap) {
  StagedUpdate& front = *staged_.front();
  const UpdateName name = front.update().name();
  const bool is_unknown = front.commit().is_repair() && trust_ == Trust::kUnknown;
  Status status;
  {
    const HeldVersion held = held_;
    const Unlocked outside(lock, is_applying_);
    status = apply_front(front, held, swap, is_unknown);
  }
  if (status.code() == Code::kOutOfMemory) return status;
  if (!status.ok()) {
    if (buffers_ != nullptr) buffers_->doubt();
    if (is_unknown) give_up_repair(front.commit());
    refuse(name, status, true);
    return status;
  }
  // The arrays hold it: nothing here fails.
  unlike_ = nullptr;
  const UpdateRef applied = front.shared();
  if (swap.updates == 0 && holds_published_) way_back_.begin(held_, epoch_);
  std::optional<codec::ChangeLog> replaced = front.take_replaced();
  if (state_.device != nullptr && replaced) state_.device->note(*replaced);
  if (state_.device != nullptr && !replaced) state_.device->note_all();
  way_back_.add(std::move(replaced));
  held_ = applied->target();
  epoch_ = applied->commit.epoch;
  // Without keys an epoch far ahead is anybody's word: it must not keep this replica from its true
  // publisher.
  latest_epoch_ =
      trusted_
          ? epoch_
          : std::max(latest_epoch_, std::min(epoch_, system_nanoseconds() + kMaxAheadNanoseconds));
  latest_version_ = held_.version;
  proof_ = front.proof();
  holds_published_ = has_news_ = true;
  trust_ = Trust::kVouched;
  newest_ = std::max(newest_, held_.version);
  if (buffers_ != nullptr)
    state_.arrays = buffers_->back();  // that is held, though the front is shown still
  swap.version = held_.version;
  swap.hash = held_.hash;
  swap.changed += applied->commit.changed;
  swap.stream_bytes += applied->commit.stream_bytes;
  swap.by_anchor = swap.by_anchor || applied->commit.is_anchor;
  swap.by_repair = swap.by_repair || applied->commit.is_repair();
  ++swap.updates;
  forget_trouble();
  applied_ = std::move(staged_.front());
  staged_.pop_front();
  relay_.forget();
  return {};
}

// The arrays hold neither what this replica came with nor a version: no blocks are asked for again.
void Subscriber::give_up_repair(const Commit& commit) {
  may_ask_for_blocks_ = false;
  unlike_ = nullptr;
  if (buffers_ == nullptr) held_ = {0, commit.target_hash};
  is_elsewhere_ = true;
}

// Without the lock. OutOfMemory: nothing was written, and it can be tried again.
Status Subscriber::apply_front(StagedUpdate& front, const HeldVersion& held, Swap& swap,
                               bool is_unknown) try {
  const ReplicatedState written = begin_writing(swap.updates == 0);
  for (bool more = true; more;)
    SPARCL_RETURN_IF_ERROR(front.check(written, held, UINT64_MAX, more));
  if (buffers_ != nullptr && swap.updates == 0 &&
      front.is_held_already()) {  // in the front: the program has written it there
    buffers_->doubt();
    (void)begin_writing(true);
  }
  const double begin = net::monotonic_seconds();
  const StageRange range("apply a version");
  SPARCL_FAILPOINT("subscriber.applying");
  Status status = front.apply(buffers_ != nullptr ? written.arrays : std::span<std::byte* const>());
  if (status.ok() && is_unknown) status = check_repaired(written, swap);
  if (buffers_ == nullptr) swap.pause_s += net::monotonic_seconds() - begin;
  return status;
} catch (const std::bad_alloc&) {
  return no_memory();
}

// An error leaves the arrays as they were. Nothing that has come leads on from there: it is asked
// for again.
Status Subscriber::go_back(std::unique_lock<std::mutex>& lock, Swap& swap) {
  back_ = Back::kNo;
  Status status;
  {
    const HeldVersion held = held_;
    const Unlocked outside(lock, is_going_back_);
    status = write_back(held, swap);
  }
  const bool is_wanted = way_back_.to() && pin_ == way_back_.to()->version;  // still
  if (status.code() == Code::kOutOfMemory && is_wanted) back_ = Back::kWanted;
  if (!status.ok()) {
    if (buffers_ != nullptr) buffers_->doubt();
    if (status.code() == Code::kCorrupt) {
      way_back_.lose("what the tensors hold was found damaged");
      unshown_ = Swap();  // what repairs it is shown instead
    }
    log_error("replication: {}", status.message());
    return status;
  }
  show_written();
  for (const codec::ChangeLog& each : way_back_.replaced()) {
    if (state_.device != nullptr) state_.device->note(each);
  }
  held_ = *way_back_.to();
  epoch_ = way_back_.epoch();
  latest_version_ = epoch_ == latest_epoch_ ? held_.version : 0;  // its user's own wish
  if (pin_ == held_.version) back_ = Back::kThere;
  swap.version = held_.version;
  swap.hash = held_.hash;
  swap.changed = way_back_.elements();
  swap.went_back = true;
  way_back_.lose("it has gone back already");
  sweep_.forget_pass();
  staged_.clear();
  incoming_ = nullptr;
  is_requested_ = has_news_ = false;
  is_elsewhere_ = true;
  forget_trouble();
  return {};
}

// Without the lock.
Status Subscriber::write_back(const HeldVersion& held, Swap& swap) try {
  const ReplicatedState written = begin_writing(true);
  const double begin = net::monotonic_seconds();
  const Status status = way_back_.go(written, held);
  if (buffers_ == nullptr) swap.pause_s = net::monotonic_seconds() - begin;
  return status;
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace sparcl::replication
