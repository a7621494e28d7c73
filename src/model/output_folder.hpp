#pragma once

#include <string>
#include <vector>

#include "src/base/files/temporary_path.hpp"
#include "src/base/status.hpp"
#include "src/model/file_layout.hpp"

namespace sparcl::model {

// A folder of shards that appears whole or not at all: filled under another name beside its place,
// then exchanged with what is there. A symbolic link at its place is replaced itself: the folder
// behind it stays as it is, and nothing of it is kept.
class OutputFolder {
 public:
  // Refuses a `path` that is no folder, or one with shards that neither `written` nor `replaced`
  // names: they would be lost.
  static Result<OutputFolder> create(const std::string& path, const Layout& written,
                                     const Layout* replaced);

  std::string inside(const std::string& name) const { return temporary_.path() + "/" + name; }

  // A file beside the shards is about to be written: refused where the existing folder has a folder
  // of that name.
  Status make_room_for(const std::string& name) const;

  // Files of an existing folder that are no shards (configuration, tokenizer), and are not written
  // anew, are kept: linked into the new one before the exchange; folders are moved after it.
  Status commit();

 private:
  OutputFolder(std::string path, TemporaryPath temporary, bool is_link, bool is_folder)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        is_link_(is_link),
        is_folder_(is_folder) {}
  Status link_kept_files() const;
  Status exchange();
  Status move_kept_folders() const;

  std::string path_;
  TemporaryPath temporary_;  // after the exchange: what was there before
  bool is_link_;             // that is at the place
  bool is_folder_;           // the same
};

}  // namespace sparcl::model
