#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace sparcl::transport {

// Memory that MPI may still touch after its owner is destroyed: it stays reachable, and allocated,
// until the process ends.
template <class T>
void keep_for_good(std::vector<T>&& items) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::vector<T>>();
  if (items.empty()) return;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(items));
}

}  // namespace sparcl::transport
