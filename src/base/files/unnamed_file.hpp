#pragma once
// Bytes that wait on a disk, in a file without a name: it is gone with its last buffer, also if the
// process is killed.

#include <span>
#include <string>

#include "src/base/buffer.hpp"
#include "src/base/status.hpp"

namespace sparcl {

// The bytes as a mapping of such a file, read-only. folder: of a local disk. It takes no memory
// that the system cannot take back. A disk that fails later raises SIGBUS. SystemError: there is no
// room, or the file system has no files without a name, as NFS.
Result<Buffer> to_unnamed_file(const std::string& folder, std::span<const std::byte> bytes);

}  // namespace sparcl
