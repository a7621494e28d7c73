#pragma once
// A folder into which checkpoints are written, one file each.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::tool {

// Another file, or other content, has another mark: writing sets the time of the last change, which
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
  // A file counts once it has stood still for so long and opens. Others wait for one that does not
  // for `patience` from when it was first seen, however often it changes; then it is given up.
  // Should it count later, it comes all the same.
  struct Times {
    double still_s = 0.3;    // heuristic
    double patience_s = 10;  // heuristic
  };
  WatchedFolder(std::string path, Times times) : path_(std::move(path)), times_(times) {}

  struct Look {
    std::vector<std::string> ready;  // each once, in the order of their names
    std::vector<Status> given_up;    // each once, with its path; again where it is replaced
    Status held_up;                  // once a file: it is waited for, for a second by now
    bool has_more = false;  // files that do not count yet; those with later names wait for them
  };
  // now: of monotonic_seconds(). A file that is replaced is a new one; hidden files are none.
  Result<Look> look(double now);

  // What was ready was not taken: it is again, while there is patience with it. why: the first one
  // of `paths` could not be read; the others wait for it.
  void put_back(std::span<const std::string> paths, const Status& why);

 private:
  struct Entry {
    FileMark mark;
    double since = 0;       // this mark
    double first_seen = 0;  // whatever its mark was then
    bool is_file = false;   // not a folder, a pipe
    bool is_done = false;
    bool is_given_up = false;  // once: nobody waits for it
    bool is_told = false;      // that others wait for it
    Status unread;             // since it has this mark
  };
  Entry met(const FileMark& mark, bool is_file, const Entry* known, double now) const;
  Status trouble_with(const std::string& path, const Entry& entry, double now) const;
  Status list(std::map<std::string, Entry>& entries, double now) const;

  std::string path_;
  Times times_;
  std::map<std::string, Entry> entries_;  // by path
};

}  // namespace sparcl::tool
