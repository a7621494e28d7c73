#pragma once
// Opening a file that other hosts may have made, replaced or removed.

#include <string>

namespace sparcl::store {

// How often a request is made whose handle is stale (ESTALE): another client of NFS has replaced
// the file or its folder, and a new look-up finds the new one.
inline constexpr int kStaleTries = 5;

// open(2) for reading; -1: errno. Opening asks the server of NFS again, where stat(2) may answer
// from what this client remembers. A name that is not there is looked up once more after its folder
// has been opened: that has the client ask for the folder's names, too.
int open_fresh(const std::string& path);

// Whether errno says that nothing is there.
bool is_absent_error(int error);

}  // namespace sparcl::store
