#pragma once
// A folder into which checkpoints are written, one file each.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::tool {

// Another file, or other content, has another mark.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  friend bool operator==(const FileMark&, const FileMark&) = default;
};
std::optional<FileMark> mark_of(const std::string& path);

class WatchedFolder {
 public:
  // A file counts once it has stood still for so long and opens. One that stands still and does not open is given up after
  // `patience`.
  struct Times {
    double still_s = 0.3;    // heuristic
    double patience_s = 10;  // heuristic
  };
  WatchedFolder(std::string path, Times times) : path_(std::move(path)), times_(times) {}

  struct Look {
    std::vector<std::string> ready;  // each once, in the order of their names
    std::vector<Status> given_up;    // each once, with its path
    bool has_more = false;           // files that do not count yet; those with later names wait for them
  };
  // now: of monotonic_seconds(). A file that is replaced is a new one; hidden files are none.
  Result<Look> look(double now);

 private:
  struct Entry {
    FileMark mark;
    double since = 0;
    bool is_file = false;  // not a folder, a pipe
    bool is_done = false;
  };
  Status list(std::map<std::string, Entry>& entries, double now) const;

  std::string path_;
  Times times_;
  std::map<std::string, Entry> entries_;  // by path
};

}  // namespace sparcl::tool
