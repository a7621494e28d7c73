#pragma once
// A value that one thread writes, and that any number of threads or of processes sharing the memory
// read: a sequence lock without fences. All zero bytes are a valid value that was never written, so
// fresh shared memory needs no construction.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sparcl::flight {

template <class T>
class Published {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  static constexpr std::size_t kWords = sizeof(T) / sizeof(std::uint64_t);

 public:
  // One writer at a time; no other thread waits for it. A writer that dies in here leaves the
  // sequence odd.
  void store(const T& value) noexcept {
    std::array<std::uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof value);
    const std::uint64_t before = sequence_.load(std::memory_order_relaxed);
    sequence_.store(before | 1, std::memory_order_relaxed);
    // Each word releases the odd sequence: a reader that meets a new word also meets a changed
    // sequence.
    for (std::size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    sequence_.store((before | 1) + 1, std::memory_order_release);
  }

  // False if a write was in between: `into` is then invalid.
  bool load(T& into) const noexcept {
    const std::uint64_t before = sequence_.load(std::memory_order_acquire);
    std::array<std::uint64_t, kWords> words;
    for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
    if (before % 2 != 0 || sequence_.load(std::memory_order_relaxed) != before) return false;
    std::memcpy(static_cast<void*>(&into), words.data(), sizeof into);
    return true;
  }

  // The value, for its writer.
  T held() const noexcept {
    std::array<std::uint64_t, kWords> words;
    for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return value;
  }

 private:
  std::atomic<std::uint64_t> sequence_;
  std::array<std::atomic<std::uint64_t>, kWords> words_;
};

}  // namespace sparcl::flight
