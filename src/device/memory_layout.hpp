#pragma once
// Offsets in a piece of memory, one after the other.

#include <cstddef>
#include <cstdint>

namespace sparcl::device {

// Up to a multiple of 16, which kernels' vectors are aligned to.
constexpr std::size_t padded(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

class MemoryLayout {
 public:
  // The offset of this many bytes, aligned to 256.
  std::size_t place(std::uint64_t bytes) {
    const std::size_t begin = end_;
    end_ += (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    return begin;
  }
  std::size_t size_bytes() const { return end_; }

 private:
  std::size_t end_ = 0;
};

}  // namespace sparcl::device
