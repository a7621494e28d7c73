#include "src/base/buffer_pool.hpp"

#include <array>
#include <bit>
#include <mutex>
#include <vector>

#include "src/base/segment_pool.hpp"

namespace sparcl {
namespace {

constexpr std::size_t kLeastPooledBytes = 4096;  // what is smaller is left to the allocator
constexpr unsigned kLeastLog2 = std::countr_zero(kLeastPooledBytes);
constexpr unsigned kMostLog2 = std::countr_zero(kSegmentBytes);
constexpr std::size_t kShelves = 4 * (kMostLog2 - kLeastLog2) + 1;

// Four sizes from one power of two to the next: at most a fifth is wasted.
struct SizeClass {
  std::size_t shelf;
  std::size_t bytes;
};
SizeClass size_class(std::size_t bytes) {
  const unsigned log2 = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;  // of the power below
  const std::size_t base = std::size_t{1} << log2, quarter = base / 4;
  const std::size_t quarters = (bytes - base + quarter - 1) / quarter;  // 1 to 4
  return {4 * (log2 - kLeastLog2) + quarters - 1, base + quarters * quarter};
}

}  // namespace

// Pieces of segments, which go back to where they come from with the last of them.
struct BufferPool::Shelves {
  explicit Shelves(std::size_t most) : most_segments(most / kSegmentBytes) {}

  // Nothing where the pool is as large as it may be.
  std::byte* take(const SizeClass& size) {
    const std::lock_guard lock(mutex);
    std::vector<std::byte*>& shelf = free[size.shelf];
    if (!shelf.empty()) {
      std::byte* const bytes = shelf.back();
      shelf.pop_back();
      return bytes;
    }
    if (rest.size() < size.bytes) {
      if (segments.size() == most_segments) return nullptr;
      segments.push_back(take_segment());
      rest = segments.back();
    }
    shelf.reserve(++pieces[size.shelf]);  // so that giving back needs no memory
    std::byte* const bytes = rest.data();
    rest = rest.slice(size.bytes, rest.size() - size.bytes);
    return bytes;
  }

  void give_back(std::byte* bytes, const SizeClass& size) {
    const std::lock_guard lock(mutex);
    free[size.shelf].push_back(bytes);
  }

  std::mutex mutex;
  std::array<std::vector<std::byte*>, kShelves> free;  // the warmest last
  std::array<std::size_t, kShelves> pieces{};          // there are of each
  std::vector<Buffer> segments;
  Buffer rest;  // of the last segment
  std::size_t most_segments;
};

BufferPool::BufferPool(std::size_t most_bytes) : shelves_(std::make_shared<Shelves>(most_bytes)) {}

Buffer BufferPool::take(std::size_t bytes) {
  if (bytes <= kLeastPooledBytes || bytes > kSegmentBytes) return Buffer::allocate(bytes);
  const SizeClass size = size_class(bytes);
  std::byte* const storage = shelves_->take(size);
  if (storage == nullptr) return Buffer::allocate(bytes);
  std::shared_ptr<std::byte[]> shared(storage, [shelves = shelves_, size](std::byte* at) { shelves->give_back(at, size); });
  return Buffer(std::move(shared), 0, bytes);
}

}  // namespace sparcl
