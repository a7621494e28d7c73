#pragma once
// Names of unfinished output: removed when it is given up, also by a signal.

#include <string>

namespace sparcl::model {

// A file or folder that is removed, with all it holds, unless release() comes first.
class TemporaryPath {
 public:
  // A name in the folder of `path` that no other TemporaryPath of this process has; nothing is created.
  static TemporaryPath beside(const std::string& path);

  TemporaryPath(TemporaryPath&& other) noexcept;
  TemporaryPath& operator=(TemporaryPath&& other) noexcept;
  ~TemporaryPath();

  const std::string& path() const { return path_; }
  void release();               // it is no longer temporary
  void hide() const;            // remove_temporary_paths() leaves it alone from now on
  void take(std::string path);  // releases its path, and removes this one instead; hidden

 private:
  explicit TemporaryPath(std::string path);

  std::string path_;  // empty: nothing to remove
};

// For a process that a signal is about to end. Not safe inside a signal handler: call it from a thread that waits for signals.
void remove_temporary_paths();

}  // namespace sparcl::model
