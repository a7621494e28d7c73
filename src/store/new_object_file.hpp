#pragma once
// A file that becomes an object of a directory store.

#include <span>
#include <string>

#include "src/store/object_store.hpp"

namespace sparcl::store {

class NewObjectFile {
 public:
  // Beside the object's path, under a random name. All bytes are on the disk.
  static Result<NewObjectFile> write(const std::string& path, Pieces bytes);
  // The same, in steps: nothing yet, bytes in order, all on the disk.
  static Result<NewObjectFile> create(const std::string& path);
  Status append(std::span<const std::byte> bytes);
  Status sync();
  // Whether a file of this name is one that was not finished.
  static bool is_name(std::string_view name);

  NewObjectFile(NewObjectFile&& other) noexcept;
  NewObjectFile& operator=(NewObjectFile&&) = delete;
  ~NewObjectFile();  // removes the random name

  // False: there is another file at the path.
  Result<bool> link_if_absent() const;
  Status rename_over();
  // Whether the file system has links between files.
  Result<bool> can_be_linked() const;

 private:
  NewObjectFile(std::string path, std::string temporary)
      : path_(std::move(path)), temporary_(std::move(temporary)) {}
  Result<bool> is_at_path() const;
  bool has_happened() const;

  std::string path_, temporary_;
  int fd_ = -1;
  std::uint64_t written_bytes_ = 0;
};

}  // namespace sparcl::store
