#pragma once
// A write beyond the process's file size limit (RLIMIT_FSIZE, `ulimit -f`) raises SIGXFSZ, which
// ends the process.

#include <signal.h>

#include <string>

namespace sparcl {

// While it lives, such a write of this thread is an error (EFBIG) instead of a signal. The
// program's own signals are not changed.
class FileSizeSignalBlock {
 public:
  FileSizeSignalBlock();
  ~FileSizeSignalBlock();  // keeps errno
  FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
  FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;

 private:
  sigset_t before_{};
  bool was_pending_ = false;
};

// For the text of an EFBIG: " (files of this process may have 1000 bytes: ulimit -f)"; empty if
// there is no limit.
std::string file_size_limit_text();

}  // namespace sparcl
