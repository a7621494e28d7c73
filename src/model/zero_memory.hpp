#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl::model {

// Zeros that take memory only after they are written; on huge pages if the system has some.
class ZeroMemory {
 public:
  // OutOfMemory says that they are for `what`.
  static Result<ZeroMemory> allocate(std::uint64_t bytes, const char* what = "new tensors");
  // The same on pages of the usual size, and without a promise of the system that it has memory
  // for all of them: for addresses of which few are written.
  static Result<ZeroMemory> reserve(std::uint64_t bytes, const char* what);
  // In a file without a name of this folder, on a local disk: the system takes its memory back when
  // it needs it. SystemError: there is no room, or the file system has no files without a name, as
  // NFS. A disk that fails later raises SIGBUS.
  static Result<ZeroMemory> in_file(const std::string& folder, std::uint64_t bytes);
  ZeroMemory(ZeroMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ZeroMemory& operator=(ZeroMemory&&) = delete;
  ~ZeroMemory();
  std::byte* data() const { return data_; }

 private:
  ZeroMemory(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  static Result<ZeroMemory> map(std::uint64_t bytes, int flags, const char* what);

  std::byte* data_;
  std::uint64_t bytes_;
};

}  // namespace sparcl::model
