#include "src/base/buffer_pool.hpp"

#include <array>
#include <mutex>
#include <vector>

#include "src/base/process_own.hpp"
#include "src/base/segment_pool.hpp"
#include "src/base/size_class.hpp"

namespace sparcl {
namespace {

constexpr std::size_t kShelves = size_classes(kSegmentBytes);

}  // namespace

// Pieces of segments. A segment returns to its origin with its last piece.
struct BufferPool::Shelves {
  explicit Shelves(std::size_t most) : max_segments(most / kSegmentBytes) {}

  // Nothing if the pool is at its limit.
  std::byte* take(const SizeClass& size) {
    const std::lock_guard lock(mutex);
    std::vector<std::byte*>& shelf = free[size.number];
    if (!shelf.empty()) {
      std::byte* const bytes = shelf.back();
      shelf.pop_back();
      return bytes;
    }
    if (rest.size() < size.bytes) {
      if (segments.size() == max_segments) return nullptr;
      segments.push_back(take_segment());
      rest = segments.back();
    }
    shelf.reserve(++pieces[size.number]);  // so that a return needs no memory
    std::byte* const bytes = rest.data();
    rest = rest.slice(size.bytes, rest.size() - size.bytes);
    return bytes;
  }

  void give_back(std::byte* bytes, const SizeClass& size) {
    const std::lock_guard lock(mutex);
    free[size.number].push_back(bytes);
  }

  std::mutex mutex;
  std::array<std::vector<std::byte*>, kShelves> free;  // the most recently used last
  std::array<std::size_t, kShelves> pieces{};          // the number of each size
  std::vector<Buffer> segments;
  Buffer rest;  // of the last segment
  std::size_t max_segments;
};

BufferPool::BufferPool(std::size_t max_bytes) : shelves_(std::make_shared<Shelves>(max_bytes)) {}

std::shared_ptr<BufferPool> BufferPool::of_process() {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  return *shared_by_process<BufferPool>(
      [=] { return Result(std::make_shared<BufferPool>(kBytes)); });
}

Buffer BufferPool::take(std::size_t bytes) {
  if (bytes <= kMinPieceBytes || bytes > kSegmentBytes)
    return Buffer::allocate(bytes);  // the allocator keeps small ones
  const SizeClass size = size_class(bytes);
  std::byte* const storage = shelves_->take(size);
  if (storage == nullptr) return Buffer::allocate(bytes);
  std::shared_ptr<std::byte[]> shared(
      storage, [shelves = shelves_, size](std::byte* at) { shelves->give_back(at, size); });
  return Buffer(std::move(shared), 0, bytes);
}

}  // namespace sparcl
