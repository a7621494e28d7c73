#pragma once
// Bytes on huge pages if the system has them, as a training's allocator gives them to tensors of
// this size.

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace sparcl::bench {

class HugeBuffer {
 public:
  HugeBuffer() = default;
  explicit HugeBuffer(std::size_t bytes) : bytes_((bytes + kPage) / kPage * kPage) {
    void* at = std::aligned_alloc(kPage, bytes_);
    if (at == nullptr) std::abort();
    madvise(at, bytes_, MADV_HUGEPAGE);
    std::memset(at, 0, bytes_);
    data_ = static_cast<std::byte*>(at);
  }
  ~HugeBuffer() { std::free(data_); }
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sparcl::bench
