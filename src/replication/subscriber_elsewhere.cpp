// Versions that do not come from the publisher: take_elsewhere(). The publisher may tell of them.

#include <algorithm>
#include <chrono>

#include "src/base/caught_error.hpp"
#include "src/model/device_tensors.hpp"
#include "src/replication/subscriber.hpp"

namespace sparcl::replication {

Result<Subscriber::Swap> Subscriber::take_elsewhere(const ElsewhereWriter& write) {
  const std::lock_guard one(using_);
  std::unique_lock lock(mutex_);
  if (!machine_.may_take_elsewhere())
    return Status(Code::kInvalidUsage, "versions of this subscriber are pinned, or prepared");
  std::optional<HeldVersion> held;
  if (machine_.holds_published()) held = machine_.held();
  machine_.begin_taking();
  lock.unlock();
  Result<Swap> taken = write_elsewhere(write, held);
  lock.lock();
  if (!taken.ok()) {
    if (buffers_ != nullptr) buffers_->doubt();
    machine_.on_not_taken();
    return taken;
  }
  show_written();
  if (state_.device != nullptr) state_.device->note_all();
  rollback_.lose("the version has come from elsewhere");
  sweep_.forget_pass();
  unshown_ = Swap();
  machine_.on_taken({taken->version, taken->hash});
  relay_.forget();
  wake_.wake();
  return show(lock, *taken);
}

// Without the lock.
Result<Subscriber::Swap> Subscriber::write_elsewhere(const ElsewhereWriter& write,
                                                     const std::optional<HeldVersion>& held) try {
  const ReplicatedState written = begin_writing(true);
  return write(written, held);
} catch (...) {
  return caught_error("a version from elsewhere could not be written");
}

void Subscriber::only_told(bool is_on) {
  const std::lock_guard one(using_);
  const std::lock_guard lock(mutex_);
  machine_.on_only_told(is_on);
  wake_.wake();
}

Subscriber::Told Subscriber::told() const {
  const std::lock_guard lock(mutex_);
  Told told;
  told.is_connected = publisher_.is_ready();
  if (machine_.holds_published()) {
    told.held = machine_.held().version;
    told.hash = machine_.held().hash;
  }
  told.newest = machine_.newest();
  told.newest_at = newest_at_;
  told.is_asked = !machine_.is_only_told();
  told.epoch = machine_.publisher_epoch();
  told.is_of_epoch = machine_.epoch() == told.epoch;
  return told;
}

void Subscriber::wait_until_told(std::uint64_t known, double seconds) {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8));
  (void)came_.wait_for(lock, limit,
                       [&] { return machine_.has_reason() || machine_.newest() > known; });
}

}  // namespace sparcl::replication
