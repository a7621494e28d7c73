#pragma once
// A folder into which checkpoints are written, one file or one folder each.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "tools/sparcl/version_folder.hpp"

namespace sparcl::tool {

// Another file, or other content, has another mark: a write sets the time of the last change, which
// no program can set back.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const FileMark&, const FileMark&) = default;
};
std::optional<FileMark> mark_of(const std::string& path);

class WatchedFolder {
 public:
  // A file counts once it opens and has not changed for `still_s`; of a folder the marker must not
  // have changed, and a folder without a marker is no version (VersionFolder). Files behind one
  // that does not count wait for `patience_s` from when it was first seen, however often it
  // changes; then it is given up. If it counts later, it is still published.
  struct Times {
    double still_s = 0.3;    // heuristic
    double patience_s = 10;  // heuristic
  };
  WatchedFolder(std::string path, Times times) : path_(std::move(path)), times_(times) {}

  struct Look {
    std::vector<std::string> ready;  // each once, in the order of NumberOrder
    std::vector<Status> given_up;    // each once, with its path; again if it is replaced
    std::vector<std::string>
        unmarked;           // notes on folders that lack their marker for long, each once
    Status held_up;         // once a file: others have waited for it for a second
    bool has_more = false;  // files that do not count yet; those with later names wait for them
  };
  // now: of monotonic_seconds(). A file that is replaced is a new one; hidden files are ignored.
  Result<Look> look(double now);

  // The files in `paths` were not taken: they become ready again until their patience ends. why:
  // the first of `paths` could not be read; the rest wait for it.
  void put_back(std::span<const std::string> paths, const Status& why);

 private:
  struct Entry {
    FileMark mark;
    double since = 0;       // when this mark was first seen
    double first_seen = 0;  // with any mark
    bool is_file = false;   // a regular file, or the folder of a version; not a pipe
    std::optional<VersionFolder> folder{};
    bool is_done = false;
    bool is_given_up = false;  // once: no file waits for it
    bool is_told = false;      // it was reported that others wait for it
    Status unread;             // the read error of this mark
  };
  static std::optional<VersionFolder> folder_at(const std::string& path, const Entry* known);
  Entry met(const FileMark& mark, bool is_file, const Entry* known, double now) const;
  Status trouble_with(const std::string& path, const Entry& entry, double now) const;
  Status list(std::map<std::string, Entry, NumberOrder>& entries, double now);
  void note_unmarked(const std::string& path, double now);

  std::string path_;
  Times times_;
  std::map<std::string, Entry, NumberOrder> entries_;  // by path
  std::map<std::string, double> unmarked_;             // when they were first seen
  std::vector<std::string> notes_;                     // of the next Look::unmarked
};

}  // namespace sparcl::tool
