#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl {

// A regular file that is read and never mapped: if another program cuts it, a read fails, and no
// signal is raised.
class FileReader {
 public:
  static Result<FileReader> open(const std::string& path);
  // Of a file that is open for reading: the descriptor is the reader's from now on.
  static Result<FileReader> take(const std::string& path, int fd);

  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;
  ~FileReader();

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  std::uint64_t byte_count() const { return byte_count_; }  // when it was opened

  // Reads all of `into` from byte `at` on. Corrupt: the file ends before. SystemError: the disk or
  // the network fails.
  Status read(std::uint64_t at, std::span<std::byte> into) const;
  // The system may begin to read these bytes. A hint, for any range.
  void will_read(std::uint64_t at, std::uint64_t count) const;
  // Corrupt: it was written to since it was opened. A file that was replaced, moved or removed is
  // unchanged.
  Status check_unchanged() const;

 private:
  explicit FileReader(std::string path) : path_(std::move(path)) {}
  explicit FileReader(int fd) : fd_(fd) {}
  static Result<FileReader> examined(FileReader file);

  std::string path_;
  int fd_ = -1;
  std::uint64_t byte_count_ = 0;
  std::int64_t written_ns_ = 0;
};

// All bytes of a small file.
Result<std::vector<std::byte>> read_file(const std::string& path);

// "PATH: WHAT: No space left on device", with errno's text, as SystemError. errno stays.
Status system_error(const std::string& path, const std::string& what);

}  // namespace sparcl
