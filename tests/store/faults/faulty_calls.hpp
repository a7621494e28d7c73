#pragma once
// File systems that fail, answer late or answer twice: the calls of this program to the kernel are
// handed on by stand-ins (the linker's --wrap), which fail as a test wants it. Only calls for files
// below one folder are touched.

#include <string>
#include <vector>

namespace sparcl::test {

enum class FileCall {
  kOpen,        // for reading
  kCreate,      // open(2) with O_CREAT
  kOpenFolder,  // open(2) with O_DIRECTORY
  kExamine,     // stat(2), fstat(2)
  kRead,
  kWrite,
  kSyncFile,
  kSyncFolder,
  kLink,
  kRename,
  kMakeFolder,
  kRemove
};

struct Fault {
  FileCall call = FileCall::kWrite;
  int error = 0;
  std::string path = "";          // a part of the file's path
  int skip = 0, count = 1;        // so many calls pass first, and so many fail then
  bool happens = false;           // the call has its effect, and only its answer is wrong
  bool ends_with_folder = false;  // no call fails any more once a folder has been opened
};

// From now on, for files below the folder. Earlier faults end.
void set_faults(const std::string& folder, std::vector<Fault> faults);
// How many calls have failed since then.
int met_faults();
// stat(2) of this path answers from now on what it answers now, until the file has been opened.
void remember_attributes(const std::string& path);

}  // namespace sparcl::test
