#pragma once
// Shared bytes that the network may use. A send in flight keeps its buffer alive, even after the
// call has ended.

#include <cstddef>
#include <memory>
#include <span>

#include "src/base/memory_space.hpp"

namespace sparcl {

// A slice of reference-counted storage. Copies share the bytes. Empty by default.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<std::byte[]> storage, std::size_t offset_bytes, std::size_t size_bytes,
         MemorySpace space = MemorySpace::kHost)
      : storage_(std::move(storage)),
        offset_bytes_(offset_bytes),
        size_bytes_(size_bytes),
        space_(space) {}

  // Uninitialised host bytes.
  static Buffer allocate(std::size_t size_bytes) {
    return Buffer(std::make_shared_for_overwrite<std::byte[]>(size_bytes), 0, size_bytes);
  }

  std::byte* data() const { return storage_.get() + offset_bytes_; }
  std::size_t size() const { return size_bytes_; }
  MemorySpace space() const { return space_; }
  std::span<std::byte> bytes() const { return {data(), size_bytes_}; }

  // [first, first + count) of this slice, which must hold it.
  Buffer slice(std::size_t first, std::size_t count) const {
    return Buffer(storage_, offset_bytes_ + first, count, space_);
  }

 private:
  std::shared_ptr<std::byte[]> storage_;
  std::size_t offset_bytes_ = 0;
  std::size_t size_bytes_ = 0;
  MemorySpace space_ = MemorySpace::kHost;
};

}  // namespace sparcl
