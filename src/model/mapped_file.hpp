#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "src/base/status.hpp"
#include "src/model/file_reader.hpp"

namespace sparcl::model {

enum class Access { kReadOnly, kCopyOnWrite };  // copy on write: this process may change the bytes, the file never sees it

// A regular file, mapped privately. Truncating the file while it is mapped raises SIGBUS on the next read past its new end: as for
// every program that maps files, a checkpoint must be replaced (rename), not rewritten, while others read it. FileReader is for
// files of which nobody knows that.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path, Access access);
  // As many bytes as the file had when it was opened; it may be closed then.
  static Result<MappedFile> map(const FileReader& file, Access access);

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

}  // namespace sparcl::model
