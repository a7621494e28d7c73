// A version is prepared first and shown later: prepare() and commit().

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "src/base/failpoint.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {
namespace {

constexpr double kMorePatience = 0.05;  // seconds without an update, then the last one is told; and
constexpr double kLongestMore = 1;      // of all together; both as of next(), heuristic

}  // namespace

bool Subscriber::Prepared::can_show(const PreparedVersion& version) const {
  return version == shown || std::ranges::find(ready, version) != ready.end();
}

PreparedVersion Subscriber::Prepared::newest() const {
  return ready.empty() ? shown : std::max(shown, ready.back());
}

Subscriber::Prepared Subscriber::prepared() const {
  Prepared now;
  if (machine_.holds_published() && shown_version() != 0)
    now.shown = {machine_.epoch(), shown_version()};
  if (machine_.wants_back()) {
    if (rollback_.to()) now.ready.push_back({rollback_.epoch(), rollback_.to()->version});
    return now;
  }
  now.ready = machine_.ready();
  if (unshown_.is_news())
    now.ready.insert(now.ready.begin(), PreparedVersion{machine_.epoch(), machine_.held().version});
  return now;
}

bool Subscriber::has_prepared(const PreparedVersion& wanted) const {
  const Prepared now = prepared();
  return !now.ready.empty() && now.ready.back() >= wanted;
}

Result<Subscriber::Prepared> Subscriber::prepare(double seconds, const PreparedVersion& wanted) {
  const std::lock_guard one(using_);
  std::unique_lock lock(mutex_);
  const double begin = net::monotonic_seconds();
  const double deadline = begin + std::clamp(seconds, 0.0, 1e8);
  machine_.on_want(wanted.version);
  carry_out(clock_.now());
  wake_.wake();
  SPARCL_RETURN_IF_ERROR(machine_.take_age_report());
  const auto is_over = [&] { return machine_.has_trouble_to_tell() || has_prepared(wanted); };
  const auto limit = std::chrono::duration<double>(deadline - begin);
  (void)came_.wait_for(lock, limit, is_over);
  if (wanted == PreparedVersion{} && has_prepared(wanted))
    wait_for_more(lock, std::min(deadline, begin + kLongestMore));
  if (!machine_.damage().ok()) {
    unshown_ = Swap();  // what repairs it is shown instead
    return machine_.take_damage_report();
  }
  told_ = prepared();
  if (!told_.ready.empty()) return told_;
  if (!machine_.lasting_trouble().ok()) return machine_.take_lasting_trouble();
  SPARCL_RETURN_IF_ERROR(machine_.take_age_report());
  return told_;
}

// If the next update comes soon, it is told, too.
void Subscriber::wait_for_more(std::unique_lock<std::mutex>& lock, double deadline) {
  while (!machine_.is_prepared_as_far_as_it_goes()) {
    const std::size_t before = machine_.ready().size();
    const double left = std::min(kMorePatience, deadline - net::monotonic_seconds());
    const bool has_come =
        left > 0 && came_.wait_for(lock, std::chrono::duration<double>(left), [&] {
          return machine_.has_trouble_to_tell() || machine_.ready().size() != before;
        });
    if (!has_come || machine_.has_trouble_to_tell()) return;
  }
}

void Subscriber::want_no_more() {
  const std::lock_guard lock(mutex_);
  machine_.on_want(0);
  wake_.wake();
}

Status Subscriber::nothing_newer(double seconds) const {
  const std::lock_guard lock(mutex_);
  return machine_.nothing_newer(seconds);
}

Result<Subscriber::Swap> Subscriber::commit(std::uint64_t version) {
  const std::lock_guard one(using_);
  std::unique_lock lock(mutex_);
  machine_.on_want(0);
  wake_.wake();
  if (!machine_.damage().ok()) {
    unshown_ = Swap();
    return machine_.take_damage_report();
  }
  Swap swap = unshown_;
  Status status;
  if (machine_.wants_back() && rollback_.to() && rollback_.to()->version == version) {
    status = go_back(lock, swap);
  } else {
    status = climb_to(lock, swap, version);
  }
  wake_.wake();
  SPARCL_RETURN_IF_ERROR(status);
  if (swap.is_news() && swap.version == version) return show(lock, swap);
  if (!machine_.holds_published() || shown_version() != version) return not_prepared(version);
  swap = Swap();
  swap.version = version;
  swap.hash = machine_.held().hash;
  return swap;
}

// Applies the updates up to this version, all or none.
Status Subscriber::climb_to(std::unique_lock<std::mutex>& lock, Swap& swap, std::uint64_t version) {
  const int before = swap.updates;
  const Status status = take_steps(lock, swap, version);
  const int steps = swap.updates - before;
  if (steps == 0) return status;
  if (!status.ok() && undo(lock).ok()) return status;
  show_written();
  if (status.ok()) return status;
  const std::uint64_t held = swap.version;
  if (const Result<Swap> shown = show(lock, swap); !shown.ok()) return shown.status();
  return Status(status.code(), fmt::format("{}. The tensors hold version {}, on the way to {}, "
                                           "because the step there cannot be undone: prepare again",
                                           status.message(), held, version));
}

Status Subscriber::take_steps(std::unique_lock<std::mutex>& lock, Swap& swap,
                              std::uint64_t version) try {
  const int before = swap.updates;
  for (std::size_t left = machine_.steps_to(version); left > 0; --left) {
    if (!machine_.may_lead_on()) return not_prepared(version);
    SPARCL_RETURN_IF_ERROR(swap_front(lock, swap));
    SPARCL_FAILPOINT("subscriber.stepped");
  }
  // What waits may have changed while a step was applied.
  if (swap.updates > before && swap.version != version) return not_prepared(version);
  return {};
} catch (const std::bad_alloc&) {
  return no_memory();
}

// The arrays go back to the version before the first step. The set that is read was not written.
Status Subscriber::undo(std::unique_lock<std::mutex>& lock) {
  if (!rollback_.to()) return Status(Code::kInvalidUsage, rollback_.why());
  if (buffers_ == nullptr) {
    Swap back;
    SPARCL_RETURN_IF_ERROR(go_back(lock, back));
    unshown_ = Swap();
    return {};
  }
  buffers_->doubt();
  state_.arrays = buffers_->front();
  machine_.begin_restoring();
  machine_.on_restored(*rollback_.to(), rollback_.epoch());
  rollback_.lose("a step to a newer version was undone");
  sweep_.forget_pass();
  return {};
}

Status Subscriber::not_prepared(std::uint64_t version) const {
  const auto is_it = [&](const PreparedVersion& each) { return each.version == version; };
  if (std::ranges::any_of(told_.ready, is_it)) {
    const Status why = machine_.why_nothing_comes();
    return Status(Code::kWrongBase,
                  fmt::format("version {} was prepared and cannot be shown any more: {}. Prepare "
                              "again",
                              version,
                              why.ok() ? "its updates were withdrawn, or the pin has changed"
                                       : why.message()));
  }
  const Prepared now = prepared();
  return Status(
      Code::kInvalidUsage,
      fmt::format("version {} is not prepared, {}: call sparclSubscriberPrepare first", version,
                  now.ready.empty() ? std::string("and no other one is")
                                    : fmt::format("version {} is", now.ready.back().version)));
}

}  // namespace sparcl::replication
