#pragma once
// Names of unfinished output: removed when it is given up, also by a signal.

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace sparcl {

// A file or folder that is removed, with all it holds, unless release() comes first. While it is
// there it is locked (flock), so that others can tell it from what a killed process has left.
class TemporaryPath {
 public:
  // A name in the folder of `path` that no other TemporaryPath of this process has; nothing is
  // created. With a mark, a word, remove_leftovers() takes it for no leftover.
  static TemporaryPath beside(const std::string& path, std::string_view mark = {});
  // The same, and it is created, after remove_leftovers(path): an empty file, open for writing,
  // whose descriptor is the caller's; or a folder. Nothing: errno or `error` says why.
  struct File;
  static std::optional<File> create_file(const std::string& path, mode_t mode);
  static std::optional<TemporaryPath> create_folder(const std::string& path,
                                                    std::error_code& error);

  TemporaryPath(TemporaryPath&& other) noexcept;
  TemporaryPath& operator=(TemporaryPath&& other) noexcept;
  ~TemporaryPath();

  const std::string& path() const { return path_; }
  void release();               // it is no longer temporary
  void hide() const;            // remove_temporary_paths() leaves it alone from now on
  void take(std::string path);  // releases its path, and removes this one instead; hidden
  // A folder that is about to have its path, or to be taken: it is locked, and removed without one
  // more descriptor. False: errno
  bool hold(const std::string& folder);

 private:
  explicit TemporaryPath(std::string path);

  std::string path_;  // empty: nothing to remove
  int lock_ = -1;     // a descriptor of the folder
  int held_ = -1;     // of the one that hold() has named
};

struct TemporaryPath::File {
  TemporaryPath path;
  int fd = -1;
};

// For a process that a signal is about to end: none is created while the lock is held. Not safe
// inside a signal handler: call it from a thread that waits for signals.
[[nodiscard]] std::unique_lock<std::mutex> remove_temporary_paths();

// For a process that ends because an exception cannot be thrown: waits for no lock and takes no
// memory. What another thread is making at this moment may stay.
void remove_temporary_paths_at_once() noexcept;

// Removes what processes that were killed have left in the folder of `path`, where it was to become
// `path`: of an id that no process has, or one that is younger than what was left; without a lock;
// and no folder with folders in it, which are a user's (OutputFolder). Returns how many.
int remove_leftovers(const std::string& path);

}  // namespace sparcl
