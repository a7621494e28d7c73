#pragma once
// A lock between processes on a file or a folder (flock(2)). It ends with the object, or with the
// process.

#include <chrono>
#include <string>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl {

class FileLock {
 public:
  // The file is made with mode 0600 if it is not there. Timeout: another process has the lock.
  static Result<FileLock> of_file(const std::string& path, std::chrono::seconds patience);
  static Result<FileLock> of_folder(const std::string& path, std::chrono::seconds patience);

  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  static Result<FileLock> take(const std::string& path, int flags, std::chrono::seconds patience);

  int fd_;
};

}  // namespace sparcl
