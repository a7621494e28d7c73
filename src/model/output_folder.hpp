#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/base/files/temporary_path.hpp"
#include "src/base/status.hpp"
#include "src/model/file_layout.hpp"

namespace sparcl::model {

// A folder of shards that appears completely or not at all. It is filled under a temporary name
// beside its path, then exchanged with the existing folder. A symbolic link at the path is itself
// replaced: its target folder stays unchanged, and none of its files are kept.
class OutputFolder {
 public:
  // Refuses a `path` that is not a folder. Also refuses a folder with shards that neither `written`
  // nor `replaced` names, because they would be lost.
  static Result<OutputFolder> create(const std::string& path, const Layout& written,
                                     const Layout* replaced);

  std::string inside(const std::string& name) const { return temporary_.path() + "/" + name; }

  // Call before a file is written beside the shards. Refused if the existing folder has a folder of
  // that name.
  Status make_room_for(const std::string& name) const;

  // Keeps files of an existing folder that are not shards (configuration, tokenizer), are not
  // rewritten, and are not `dropped`. They are linked into the new folder before the exchange;
  // folders are moved after it.
  Status commit(std::span<const std::string> dropped = {});

 private:
  OutputFolder(std::string path, TemporaryPath temporary, bool is_link, bool is_folder)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        is_link_(is_link),
        is_folder_(is_folder) {}
  Status link_kept_files(std::span<const std::string> dropped) const;
  bool is_old(const std::string& place) const;  // what create() has found at the path
  Status exchange();
  Status check_exchanged();
  Status replaced_meanwhile(const std::string& aside, bool is_back) const;
  Status move_kept_folders() const;

  std::string path_;
  TemporaryPath temporary_;  // after the exchange: the previous folder
  bool is_link_;             // the path is a link
  bool is_folder_;           // the path is a folder
};

}  // namespace sparcl::model
