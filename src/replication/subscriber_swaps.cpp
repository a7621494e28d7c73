// How staged updates become the held version: next(), and the rollback.

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
// The lock is let go of as long as this lives.
class Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

}  // namespace

Result<Subscriber::Swap> Subscriber::next(double seconds) {
  const std::lock_guard one(using_);
  std::unique_lock lock(mutex_);
  const double deadline = net::monotonic_seconds() + std::clamp(seconds, 0.0, 1e8);
  SPARCL_RETURN_IF_ERROR(machine_.take_age_report());
  Swap swap = unshown_;
  if (swap.is_news() || wait_for_news(lock, deadline)) {
    if (!machine_.damage().ok()) {
      unshown_ = Swap();  // what repairs it is shown instead
      return machine_.take_damage_report();
    }
    Status status;
    if (machine_.wants_back()) {
      status = go_back(lock, swap);
    } else {
      status = climb_as_far_as_it_goes(lock, swap, deadline);
      if (swap.updates > 0) show_written();
    }
    wake_.wake();
    if (!status.ok() && swap.updates == unshown_.updates)
      return status;  // what is still to be shown waits for the next call
    if (!swap.is_news() && !machine_.lasting_trouble().ok()) return machine_.take_lasting_trouble();
    if (!swap.is_news()) SPARCL_RETURN_IF_ERROR(machine_.take_age_report());
  }
  if (swap.is_news()) return show(lock, swap);
  return machine_.nothing_newer(seconds);
}

// The arrays hold it, or their mirror.
Result<Subscriber::Swap> Subscriber::show(std::unique_lock<std::mutex>& lock, const Swap& swap) {
  SPARCL_RETURN_IF_ERROR(show_on_device(lock, swap));
  const std::shared_ptr<const Offer> proof = machine_.proof();
  lock.unlock();
  keep_record(proof.get());
  if (options_.on_swap) options_.on_swap(swap.version);
  tell_repairs(swap);
  return swap;
}

void Subscriber::tell_repairs(const Swap& swap) const {
  if (swap.damaged_blocks > 0) {
    log_warn(
        "replication: the bytes that this replica started with were damaged: {} of {} blocks "
        "differed from version {}: repaired",
        swap.damaged_blocks, state_.map->block_count(), swap.version);
  } else if (swap.by_repair) {
    log_warn("replication: the tensors hold version {} again: {} of {} elements were sent anew",
             swap.version, swap.changed, state_.map->element_count());
  }
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
  return came_.wait_for(lock, limit, [&] { return machine_.has_reason(); });
}

// Updates that were applied are shown, even if a later one fails.
Status Subscriber::climb_as_far_as_it_goes(std::unique_lock<std::mutex>& lock, Swap& swap,
                                           double deadline) try {
  return climb(lock, swap, deadline);
} catch (const std::bad_alloc&) {
  return no_memory();
}

// Applies what is staged. A replica that is further behind is sent more only once it holds this. If
// the next update comes soon, climb() waits for it: users see the newest version, not each version
// on the way.
Status Subscriber::climb(std::unique_lock<std::mutex>& lock, Swap& swap, double deadline) {
  const double until = std::min(deadline, net::monotonic_seconds() + kLongestClimb);
  for (;;) {
    // An update after the first is checked here, because its base is held only now.
    while (machine_.may_lead_on()) SPARCL_RETURN_IF_ERROR(swap_front(lock, swap));
    if (machine_.is_as_far_as_it_goes()) return {};
    wake_.wake();
    if (!wait_for_news(lock, std::min(until, net::monotonic_seconds() + kClimbPatience)) ||
        !machine_.may_apply())
      return {};
  }
}

// The state that is written now, before the first update of a next() or after it. Without the lock.
ReplicatedState Subscriber::begin_writing(bool is_first) {
  if (buffers_ == nullptr) return state_;
  if (is_first) buffers_->catch_up(state_, rollback_);
  ReplicatedState written = state_;
  written.arrays = buffers_->back();
  return written;
}

void Subscriber::show_written() {
  if (buffers_ == nullptr) return;
  buffers_->exchange();
  state_.arrays = buffers_->front();
}

// Tensors in device memory: their mirror holds the version, and is copied to them. Only next()
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
  return state_.device != nullptr ? shown_version_ : machine_.held().version;
}

// Applies the first of what is staged. An error leaves the arrays as they were. The update is then
// gone, and what came after it, unless only memory was missing.
Status Subscriber::swap_front(std::unique_lock<std::mutex>& lock, Swap& swap) {
  replica_phase::Applying& front = machine_.begin_applying();
  Status status;
  try {
    const HeldVersion held = machine_.held();
    const Unlocked outside(lock);
    status = apply_front(front, held, swap);
  } catch (...) {
    machine_.on_applied_nothing();
    throw;
  }
  if (status.code() == Code::kOutOfMemory) {
    machine_.on_applied_nothing();
    return status;
  }
  if (!status.ok()) {
    if (buffers_ != nullptr) buffers_->doubt();
    machine_.on_not_applied(status, buffers_ == nullptr, clock_.now());
    carry_out(clock_.now());
    return status;
  }
  note_applied(front, swap);
  return {};
}

// The arrays hold it: nothing here fails.
void Subscriber::note_applied(replica_phase::Applying& front, Swap& swap) {
  if (swap.updates == 0 && machine_.holds_published())
    rollback_.begin(machine_.held(), machine_.epoch());
  std::optional<codec::ChangeLog> replaced = front.update->take_replaced();
  if (state_.device != nullptr && replaced) state_.device->note(*replaced);
  if (state_.device != nullptr && !replaced) state_.device->note_all();
  rollback_.add(std::move(replaced));
  applied_ = machine_.on_applied(system_nanoseconds());
  if (buffers_ != nullptr)
    state_.arrays = buffers_->back();  // that is held, though the front is shown still
  const Commit& commit = applied_->commit();
  swap.version = machine_.held().version;
  swap.hash = machine_.held().hash;
  swap.changed += commit.changed;
  swap.stream_bytes += commit.stream_bytes;
  swap.by_anchor = swap.by_anchor || commit.is_anchor;
  swap.by_repair = swap.by_repair || commit.is_repair();
  ++swap.updates;
  relay_.forget();
}

// Without the lock. OutOfMemory: nothing was written, and it can be tried again.
Status Subscriber::apply_front(replica_phase::Applying& front, const HeldVersion& held,
                               Swap& swap) try {
  StagedUpdate& update = *front.update;
  const ReplicatedState written = begin_writing(swap.updates == 0);
  for (bool more = true; more;)
    SPARCL_RETURN_IF_ERROR(update.check(written, held, UINT64_MAX, more));
  if (buffers_ != nullptr && swap.updates == 0 &&
      update.is_held_already()) {  // in the front: the program has written it there
    buffers_->doubt();
    (void)begin_writing(true);
  }
  const double begin = net::monotonic_seconds();
  const StageRange range("apply a version");
  SPARCL_FAILPOINT("subscriber.applying");
  Status status =
      update.apply(buffers_ != nullptr ? written.arrays : std::span<std::byte* const>());
  if (status.ok() && front.expected) status = check_all(written, *front.expected, swap);
  if (buffers_ == nullptr) swap.pause_s += net::monotonic_seconds() - begin;
  return status;
} catch (const std::bad_alloc&) {
  return no_memory();
}

// Checks all bytes after a repair of what this replica came with, or after a giver's anchor: they
// are the version that the publisher vouches for.
Status Subscriber::check_all(const ReplicatedState& written, const Comparison& expected,
                             Swap& swap) const try {
  model::StateIdentity now(state_.schema_digest);
  const Result<bool> whole = now.step(*written.map, {written.readable()}, UINT64_MAX);
  SPARCL_ASSIGN_OR_RETURN(const Digest256 digest,
                          whole.ok() ? now.finish() : Result<Digest256>(whole.status()));
  const std::vector<Digest256>& before = expected.digest.of_blocks();
  const bool is_repair = !before.empty();
  if (digest != expected.with.digest || (is_repair && before.size() != now.of_blocks().size())) {
    return Status(Code::kCorrupt, fmt::format("{} have not led to version {} (SHA-256)",
                                              is_repair ? "the blocks that were sent anew"
                                                        : "all bytes that another replica gave",
                                              expected.with.version.version));
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (now.of_blocks()[i] != before[i]) ++swap.damaged_blocks;
  }
  return {};
} catch (const std::bad_alloc&) {  // the update is applied: it cannot be tried again
  return Status(Code::kSystemError, "there is no memory to compare the new bytes by SHA-256");
}

// An error leaves the arrays as they were. Nothing that has come leads on from there: it is asked
// for again.
Status Subscriber::go_back(std::unique_lock<std::mutex>& lock, Swap& swap) {
  machine_.begin_restoring();
  Status status;
  try {
    const HeldVersion held = machine_.held();
    const Unlocked outside(lock);
    status = write_back(held, swap);
  } catch (...) {
    machine_.on_not_restored(Status(), {});
    throw;
  }
  if (!status.ok()) {
    machine_.on_not_restored(status, rollback_.to());
    if (buffers_ != nullptr) buffers_->doubt();
    if (status.code() == Code::kCorrupt) {
      rollback_.lose("what the tensors hold was found damaged");
      unshown_ = Swap();  // what repairs it is shown instead
    }
    log_error("replication: {}", status.message());
    return status;
  }
  show_written();
  for (const codec::ChangeLog& each : rollback_.replaced()) {
    if (state_.device != nullptr) state_.device->note(each);
  }
  swap.changed = rollback_.elements();
  swap.went_back = true;
  machine_.on_restored(*rollback_.to(), rollback_.epoch());
  swap.version = machine_.held().version;
  swap.hash = machine_.held().hash;
  rollback_.lose("it has gone back already");
  sweep_.forget_pass();
  return {};
}

// Without the lock.
Status Subscriber::write_back(const HeldVersion& held, Swap& swap) try {
  const ReplicatedState written = begin_writing(true);
  const double begin = net::monotonic_seconds();
  const Status status = rollback_.go(written, held);
  if (buffers_ == nullptr) swap.pause_s = net::monotonic_seconds() - begin;
  return status;
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace sparcl::replication
