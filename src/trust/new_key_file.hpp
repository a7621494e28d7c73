#pragma once
// A file that never replaces another: it appears under its name as a whole, or not at all.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/files/file_lock.hpp"
#include "src/base/files/temporary_path.hpp"
#include "src/base/status.hpp"

namespace sparcl::trust {

// `path` must name a file, not a folder.
Status check_key_path(const std::string& path);

// The file behind symbolic links, which a program that runs reads.
std::string behind_links(const std::string& path);

// One process at a time changes the key files of a folder, which is locked. Timeout: another
// process has held the lock for 10 s.
Result<FileLock> lock_folder_of(const std::string& path);

// Owner and group of a file, for the file that takes its place: a service must be able to read it.
class FileOwner {
 public:
  explicit FileOwner(const std::string& path);  // nothing if there is no such file
  // SystemError: the system does not allow it.
  Status give_to(const std::string& path) const;

 private:
  std::optional<std::pair<unsigned, unsigned>> ids_;  // of the user, of the group
};

class NewKeyFile {
 public:
  // Writes to the disk, under another name of the same folder. private_to_owner: mode 0600,
  // whatever the umask and the folder's ACL say; else 0644 less the umask.
  static Result<NewKeyFile> write(const std::string& path, std::string_view text,
                                  bool private_to_owner);

  Status appear();   // under its name; InvalidArgument if the name exists
  Status replace();  // takes its name, also from another file, whose owner and group it gets
  void keep();       // without this call the destructor removes the file

 private:
  NewKeyFile(std::string path, TemporaryPath present)
      : path_(std::move(path)), present_(std::move(present)) {}

  std::string path_;
  TemporaryPath present_;  // its present name
};

}  // namespace sparcl::trust
