#pragma once
// Output that appears whole or not at all: written under another name in the same folder, then
// renamed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/base/files/temporary_path.hpp"
#include "src/base/status.hpp"

namespace sparcl {

// Not committed: the file is removed, and what stood at `path` before stays. A killed process
// leaves ".NAME.sparcl-PID-N" behind.
class AtomicFile {
 public:
  // Refuses to replace anything but a regular file, or a symbolic link to one or to nothing: the
  // link itself is replaced, and the file behind it stays as it is. Keeps the permissions of that
  // file. Removes what killed processes have left of the same output.
  static Result<AtomicFile> create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);  // unbuffered: give large pieces
  std::uint64_t written_bytes() const { return written_bytes_; }

  // To the disk, then to its name. An error says whether it has its name: it does where only the
  // last step has failed.
  Status commit();
  // The same for a file in a folder that is new itself, and is made last as a whole later.
  Status commit_in_new_folder();

 private:
  AtomicFile(std::string path, TemporaryPath temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  std::string path_;
  TemporaryPath temporary_;
  int fd_ = -1;
  std::uint64_t written_bytes_ = 0;
};

// Makes names in the folder of `path` last: fsync of the folder.
Status sync_folder_of(const std::string& path);
// The same once `path` was given to what is new: an error says that it is there.
Status make_name_last(const std::string& path);

}  // namespace sparcl
