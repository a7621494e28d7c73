#include "src/transport/environment_overlay.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace sparcl::transport {
namespace {

std::string name_in(const char* addition) {
  return std::string(addition, std::strcspn(addition, "="));
}

bool holds(char* const* variables, const char* entry) {
  for (; *variables != nullptr; ++variables) {
    if (*variables == entry) return true;
  }
  return false;
}

// Arrays that a reader may still use. All are kept reachable, so that no tool reports them as
// leaks.
struct Kept {
  std::vector<char*> entries;
  Kept* before = nullptr;
};
std::atomic<Kept*> newest{nullptr};

}  // namespace

// setenv() would move the array while other threads read it. A second array does not: it stays
// allocated, because a reader may still use it later. 1 KB a load.
EnvironmentOverlay::EnvironmentOverlay(std::span<const char* const> additions)
    : additions_(additions), before_(environ) {
  auto* const kept = new Kept;
  kept->before = newest.exchange(kept);
  std::vector<char*>& entries = kept->entries;
  for (const char* const addition : additions) {
    if (std::getenv(name_in(addition).c_str()) == nullptr)
      entries.push_back(const_cast<char*>(addition));
  }
  for (char** entry = before_; entry != nullptr && *entry != nullptr; ++entry)
    entries.push_back(*entry);
  entries.push_back(nullptr);
  during_ = entries.data();
  put_ = entries;
  std::atomic_ref(environ).store(during_, std::memory_order_release);
}

EnvironmentOverlay::~EnvironmentOverlay() {
  // Another thread may have changed the environment meanwhile. setenv() of a new name copies this
  // array; setenv() of an existing name, and unsetenv(), change it.
  char** expected = during_;
  const bool is_as_put = std::equal(put_.begin(), put_.end(), during_);
  if (is_as_put && std::atomic_ref(environ).compare_exchange_strong(expected, before_)) return;
  for (const char* const addition : additions_) {
    if (environ != nullptr && holds(environ, addition)) ::unsetenv(name_in(addition).c_str());
  }
}

}  // namespace sparcl::transport
