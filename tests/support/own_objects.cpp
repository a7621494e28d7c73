#include "tests/support/own_objects.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SPARCL_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SPARCL_TEST_SANITIZED)

namespace sparcl::test {
OwnObjects own_objects() { return {}; }
}  // namespace sparcl::test

#else

namespace {

std::atomic<std::size_t> live_number{0}, live_bytes{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  live_number.fetch_add(
      1, std::memory_order_relaxed);  // relaxed: read while all other threads wait at a barrier
  live_bytes.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed);
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  live_number.fetch_sub(1, std::memory_order_relaxed);
  live_bytes.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// These replace the standard's for the whole process, its shared libraries too; all other forms of
// new and delete call them.
void* operator new(std::size_t bytes) { return counted(std::malloc(bytes > 0 ? bytes : 1)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }

namespace sparcl::test {
OwnObjects own_objects() {
  return {live_number.load(std::memory_order_relaxed), live_bytes.load(std::memory_order_relaxed)};
}
}  // namespace sparcl::test

#endif
