#pragma once
// Objects that a process has once. A child of fork() makes its own: its copy of the parent's may be
// in any state.

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl {

// The T of this process. The first call makes it; nothing destroys it. Any thread.
template <class T>
T& process_own() {
  struct Made {
    T value;
    pid_t pid = ::getpid();
  };
  static std::atomic<Made*> made{nullptr};
  Made* current = made.load(std::memory_order_acquire);
  if (current != nullptr && current->pid == ::getpid()) return current->value;
  auto fresh = std::make_unique<Made>();
  if (made.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel))
    return fresh.release()->value;
  return current->value;  // another thread was faster
}

template <class T>
struct SharedSlot {
  std::mutex mutex;
  std::weak_ptr<T> held;
};

// One T of this process, as long as any caller holds it. make() returns a
// Result<std::shared_ptr<T>>. Any thread.
template <class T, class Make>
Result<std::shared_ptr<T>> shared_by_process(Make&& make) {
  SharedSlot<T>& slot = process_own<SharedSlot<T>>();
  const std::lock_guard lock(slot.mutex);
  if (std::shared_ptr<T> held = slot.held.lock()) return held;
  Result<std::shared_ptr<T>> made = std::forward<Make>(make)();
  if (made.ok()) slot.held = *made;
  return made;
}

// The T that the next call of shared_by_process() returns, or nullptr: it would make one.
template <class T>
std::shared_ptr<T> now_shared_by_process() {
  SharedSlot<T>& slot = process_own<SharedSlot<T>>();
  const std::lock_guard lock(slot.mutex);
  return slot.held.lock();
}

// Makes the next call of shared_by_process() create a new one.
template <class T>
void unshare_by_process(const std::shared_ptr<T>& shared) {
  SharedSlot<T>& slot = process_own<SharedSlot<T>>();
  const std::lock_guard lock(slot.mutex);
  if (slot.held.lock() == shared) slot.held.reset();
}

}  // namespace sparcl
