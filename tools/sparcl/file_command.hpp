#pragma once
// Shared by the commands on files: the callbacks of a library call, and its error.

#include <map>
#include <string>
#include <vector>

#include "sparcl/file.h"
#include "src/base/status.hpp"
#include "tools/sparcl/progress.hpp"

namespace sparcl::tool {

// One call. Shows its progress as `name`, and keeps the names that the library reports.
class FileCommand {
 public:
  explicit FileCommand(const std::string& name) : progress_(name) {}
  FileCommand(const FileCommand&) = delete;
  FileCommand& operator=(const FileCommand&) = delete;

  // Options with callbacks that point to this object.
  sparclFileOptions_t options() {
    sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
    attach(options);
    return options;
  }
  template <class Options>
  void attach(Options& options) {
    options.on_progress = on_progress;
    options.on_note = on_note;
    options.arg = this;
  }

  // The status of the call of `function`; clears its progress. The library names fields of options;
  // the status names flags. Throws std::bad_alloc if the library had no memory for a status.
  Status status(const char* function, sparclResult_t result);

  // The names of one kind, in the order in which they came.
  const std::vector<std::string>& names(sparclFileNoteKind_t kind) { return names_[kind]; }
  // The files in no index, without their folder.
  std::vector<std::string> names_in(const std::string& folder);
  // Clears the progress, and warns of files that are in no index: once for each checkpoint that the
  // call has opened.
  void warn();

 private:
  static sparclResult_t on_progress(std::uint64_t done_bytes, std::uint64_t total_bytes, void* arg);
  static void on_note(sparclFileNoteKind_t kind, const char* name, void* arg);

  Progress progress_;
  std::map<sparclFileNoteKind_t, std::vector<std::string>> names_;
};

// NULL if it is empty.
inline const char* path_or_null(const std::string& path) {
  return path.empty() ? nullptr : path.c_str();
}

}  // namespace sparcl::tool
