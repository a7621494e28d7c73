#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "src/base/status.hpp"

namespace sparcl::model {

enum class Access { kReadOnly, kCopyOnWrite };  // copy on write: this process may change the bytes, the file never sees it

// A regular file, mapped privately. Truncating the file while it is mapped raises SIGBUS on the next read past its new end: as for
// every program that maps files, a checkpoint must be replaced (rename), not rewritten, while others read it.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path, Access access);

  MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::byte* data() { return data_; }  // to be written where opened with kCopyOnWrite

 private:
  MappedFile(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_;  // nullptr for an empty file
  std::size_t size_;
};

// "PATH: WHAT: No space left on device", with errno's text, as SystemError.
Status system_error(const std::string& path, const std::string& what);

}  // namespace sparcl::model
