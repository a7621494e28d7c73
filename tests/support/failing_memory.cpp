#include "tests/support/failing_memory.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace sparcl::test {
namespace {

thread_local long own_left = -1;
thread_local unsigned long own_min_bytes = 0;
thread_local bool own_has_failed = false;
thread_local bool is_the_tests = false;  // the thread that has asked for failures of others
std::atomic<long> others_left = -1;
std::atomic<unsigned long> others_min_bytes = 0;
std::atomic<bool> others_have_failed = false;

bool is_to_fail(unsigned long bytes) {
  if (bytes >= own_min_bytes && own_left >= 0 && own_left-- == 0) return own_has_failed = true;
  if (is_the_tests || bytes < others_min_bytes || others_left < 0 || others_left.fetch_sub(1) != 0)
    return false;
  others_have_failed = true;
  return true;
}

}  // namespace

void fail_allocation_of_this_thread(long after, unsigned long min_bytes) {
  own_has_failed = false;
  own_min_bytes = min_bytes;
  own_left = after;
}
bool has_failed_in_this_thread() { return own_has_failed; }

void fail_allocation_of_others(long after, unsigned long min_bytes) {
  is_the_tests = true;
  others_have_failed = false;
  others_min_bytes = min_bytes;
  others_left = after;
}
bool has_failed_in_others() { return others_have_failed; }

}  // namespace sparcl::test

void* operator new(std::size_t bytes) {
  if (sparcl::test::is_to_fail(bytes)) throw std::bad_alloc();
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return sparcl::test::is_to_fail(bytes) ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
