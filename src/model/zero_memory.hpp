#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl::model {

// Zeros that take memory only after they are written; on huge pages if the system has some.
class ZeroMemory {
 public:
  // OutOfMemory says that they are for `what`.
  static Result<ZeroMemory> allocate(std::uint64_t bytes, const char* what = "new tensors");
  ZeroMemory(ZeroMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ZeroMemory& operator=(ZeroMemory&&) = delete;
  ~ZeroMemory();
  std::byte* data() const { return data_; }

 private:
  ZeroMemory(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  std::uint64_t bytes_;
};

}  // namespace sparcl::model
