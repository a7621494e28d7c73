#pragma once
// A file that never replaces another: it appears under its name as a whole, or not at all.

#include <string>
#include <string_view>
#include <utility>

#include "src/base/files/temporary_path.hpp"
#include "src/base/status.hpp"

namespace sparcl::trust {

// `path` must name a file, not a folder.
Status check_key_path(const std::string& path);

class NewKeyFile {
 public:
  // Writes to the disk, under another name of the same folder. private_to_owner: mode 0600,
  // whatever the umask and the folder's ACL say; else 0644 less the umask.
  static Result<NewKeyFile> write(const std::string& path, std::string_view text,
                                  bool private_to_owner);

  Status appear();   // under its name; InvalidArgument if the name exists
  Status replace();  // takes its name, also from another file
  void keep();       // without this call the destructor removes the file

 private:
  NewKeyFile(std::string path, TemporaryPath present)
      : path_(std::move(path)), present_(std::move(present)) {}

  std::string path_;
  TemporaryPath present_;  // its present name
};

}  // namespace sparcl::trust
