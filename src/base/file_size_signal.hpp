#pragma once
// A file that would grow beyond the process's limit (RLIMIT_FSIZE, `ulimit -f`) is a signal,
// SIGXFSZ, which ends the process.

#include <signal.h>

#include <string>

namespace sparcl {

// While it lives, such a write of this thread is an error (EFBIG) in place of the signal. The
// program's own signals stay as they are.
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

// For the text of an EFBIG: " (files of this process may have 1000 bytes: ulimit -f)"; empty where
// there is no limit.
std::string file_size_limit_text();

}  // namespace sparcl
