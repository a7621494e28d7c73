#pragma once
// Names of unfinished output, which is removed when it is abandoned, also by a signal.

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace sparcl {

// A file or folder that is removed with its contents, unless release() comes first. It is locked
// (flock) while it exists, so that other processes do not take it for a leftover of a killed
// process.
class TemporaryPath {
 public:
  // A name in the folder of `path` that no other TemporaryPath of this process has. Nothing is
  // created. remove_leftovers() ignores a name with a mark, which is a word.
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
  void hide() const;            // remove_temporary_paths() ignores it from now on
  void take(std::string path);  // releases its path, and removes `path` instead; hidden
  // Locks a folder that is about to get this path or to be taken, so that its removal needs no
  // further descriptor. False: errno
  bool hold(const std::string& folder);
  bool has_held(const std::string& folder) const;  // that hold() has opened what is there now
  bool is_created() const;  // that create_folder() has made what is there now

 private:
  explicit TemporaryPath(std::string path);

  std::string path_;  // empty: nothing to remove
  int lock_ = -1;     // a descriptor of the folder
  int held_ = -1;     // of the folder that hold() was given
};

struct TemporaryPath::File {
  TemporaryPath path;
  int fd = -1;
};

// For a process that a signal is about to end. No temporary path is created while the lock is held.
// Not safe inside a signal handler: call it from a thread that waits for signals.
[[nodiscard]] std::unique_lock<std::mutex> remove_temporary_paths();

// For a process that ends because an exception cannot be thrown. It waits for no lock and takes no
// memory. A path that another thread is creating may stay.
void remove_temporary_paths_at_once() noexcept;

// Removes leftovers of killed processes that were to become `path`, and returns how many. A
// leftover is unlocked, and its process id is free or belongs to a younger process. A folder that
// holds folders is kept, because they are a user's (OutputFolder).
int remove_leftovers(const std::string& path);

}  // namespace sparcl
