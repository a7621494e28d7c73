#include "src/base/buffer_pool.hpp"

#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

namespace sparcl {
namespace {

constexpr std::size_t kLeastPooledBytes = 4096;  // what is smaller is left to the allocator
constexpr unsigned kLeastLog2 = std::countr_zero(kLeastPooledBytes);
constexpr unsigned kShelves = 64 - kLeastLog2;
constexpr std::align_val_t kAlignment{64};

// Four sizes from one power of two to the next: at most a fifth is wasted.
struct SizeClass {
  unsigned shelf;
  std::size_t bytes;
};
SizeClass size_class(std::size_t bytes) {
  const unsigned log2 = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;  // of the power below
  const std::size_t quarter = std::size_t{1} << (log2 - 2), base = std::size_t{1} << log2;
  const std::size_t quarters = (bytes - base + quarter - 1) / quarter;  // 1 to 4
  return {4 * (log2 - kLeastLog2) + static_cast<unsigned>(quarters), base + quarters * quarter};
}

}  // namespace

struct BufferPool::Shelves {
  explicit Shelves(std::size_t most) : most_kept_bytes(most) {}
  ~Shelves() {
    for (const std::vector<std::byte*>& shelf : free) {
      for (std::byte* bytes : shelf) ::operator delete[](bytes, kAlignment);
    }
  }

  std::byte* take(const SizeClass& size) {
    {
      const std::lock_guard lock(mutex);
      std::vector<std::byte*>& shelf = free[size.shelf];
      if (!shelf.empty()) {
        std::byte* const bytes = shelf.back();
        shelf.pop_back();
        kept_bytes -= size.bytes;
        return bytes;
      }
    }
    return static_cast<std::byte*>(::operator new[](size.bytes, kAlignment));
  }

  void give_back(std::byte* bytes, const SizeClass& size) noexcept {
    {
      const std::lock_guard lock(mutex);
      if (kept_bytes + size.bytes <= most_kept_bytes && keep(bytes, size)) return;
    }
    ::operator delete[](bytes, kAlignment);
  }

 private:
  bool keep(std::byte* bytes, const SizeClass& size) noexcept {
    try {
      free[size.shelf].push_back(bytes);
    } catch (const std::bad_alloc&) {
      return false;
    }
    kept_bytes += size.bytes;
    return true;
  }

  std::mutex mutex;
  std::array<std::vector<std::byte*>, 4 * kShelves + 1> free;
  std::size_t kept_bytes = 0;
  std::size_t most_kept_bytes;
};

BufferPool::BufferPool(std::size_t most_kept_bytes) : shelves_(std::make_shared<Shelves>(most_kept_bytes)) {}

Buffer BufferPool::take(std::size_t bytes) {
  if (bytes <= kLeastPooledBytes) return Buffer::allocate(bytes);
  const SizeClass size = size_class(bytes);
  std::byte* const storage = shelves_->take(size);
  std::shared_ptr<std::byte[]> shared(storage, [shelves = shelves_, size](std::byte* at) { shelves->give_back(at, size); });
  return Buffer(std::move(shared), 0, bytes);
}

}  // namespace sparcl
