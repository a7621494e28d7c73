#pragma once
// A file that replaces nothing: it appears under its name whole, or not at all.

#include <string>
#include <string_view>
#include <utility>

#include "src/base/files/temporary_path.hpp"
#include "src/base/status.hpp"

namespace sparcl::trust {

class NewKeyFile {
 public:
  // On the disk, under another name of the same folder. private_to_owner: mode 0600, whatever the
  // umask and the folder's ACL say; else 0644 less the umask.
  static Result<NewKeyFile> write(const std::string& path, std::string_view text,
                                  bool private_to_owner);

  Status appear();  // under its name; InvalidArgument where something has it
  void keep();      // without this, it goes again with this object

 private:
  NewKeyFile(std::string path, TemporaryPath present)
      : path_(std::move(path)), present_(std::move(present)) {}

  std::string path_;
  TemporaryPath present_;  // the name under which it is there
};

}  // namespace sparcl::trust
