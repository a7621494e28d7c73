#pragma once
// Output that appears as a whole or not at all: it is written under another name in the same
// folder, then renamed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/base/files/temporary_path.hpp"
#include "src/base/status.hpp"

namespace sparcl {

// Without commit() the file is removed, and the old file at `path` stays. A killed process leaves
// ".NAME.sparcl-PID-N" behind.
class AtomicFile {
 public:
  // Replaces only a regular file or a symbolic link to a regular file or to nothing. The link
  // itself is replaced, and the file behind it stays as it is. Keeps the permissions of that file.
  // Removes what killed processes have left of the same output.
  // permissions_of: the file whose permissions are kept instead, if there is one; "": path. No user
  // can read the unfinished file who cannot read the old one.
  static Result<AtomicFile> create(const std::string& path, const std::string& permissions_of = {});

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);  // unbuffered: give large pieces
  std::uint64_t written_bytes() const { return written_bytes_; }

  // Writes to the disk, then renames. An error says whether the file has its name: it has if only
  // the last step failed.
  Status commit();
  // The same for a file in a new folder, which is itself made durable as a whole later.
  Status commit_in_new_folder();

 private:
  AtomicFile(std::string path, TemporaryPath temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  std::string path_;
  TemporaryPath temporary_;
  int fd_ = -1;
  std::uint64_t written_bytes_ = 0;
};

// Makes names in the folder of `path` durable: fsync of the folder.
Status sync_folder_of(const std::string& path);
// The same after a new file or folder got the name `path`: an error says that it is there.
Status make_name_last(const std::string& path);

}  // namespace sparcl
