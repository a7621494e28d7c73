#include "src/base/segment_pool.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace sparcl {
namespace {

// Sanitizers detect an access behind the last slice only if the memory is freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kKept = 0;
#else
constexpr std::size_t kKept = kKeptSegmentBytes / kSegmentBytes;
#endif

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Storage = std::unique_ptr<std::byte[], Free>;

// On huge pages if the machine has them: transports that copy from process to process look up each
// page.
Storage allocate() {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static_assert(kSegmentBytes % kHugePage == 0);
  Storage storage(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kSegmentBytes)));
  if (storage == nullptr) throw std::bad_alloc();
  (void)madvise(storage.get(), kSegmentBytes, MADV_HUGEPAGE);  // a hint
  return storage;
}

class SegmentPool {
 public:
  SegmentPool() { kept_.reserve(kKept); }

  Storage take() {
    {
      const std::lock_guard lock(mutex_);
      if (!kept_.empty()) {
        Storage last = std::move(kept_.back());
        kept_.pop_back();
        return last;
      }
    }
    return allocate();
  }

  void give_back(Storage storage) {
    const std::lock_guard lock(mutex_);
    if (kept_.size() < kKept) kept_.push_back(std::move(storage));
  }

 private:
  std::mutex mutex_;
  std::vector<Storage> kept_;  // the most recently used last
};

// Never destroyed: a send that could not be cancelled keeps its buffer past the end of main().
SegmentPool& pool() {
  static SegmentPool* const instance = new SegmentPool;
  return *instance;
}

}  // namespace

Buffer take_segment() {
  const auto give_back = [](std::byte* bytes) { pool().give_back(Storage(bytes)); };
  return Buffer(std::shared_ptr<std::byte[]>(pool().take().release(), give_back), 0, kSegmentBytes);
}

}  // namespace sparcl
