#pragma once
// Writes to files that are open.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/base/status.hpp"

namespace sparcl {

// Writes all bytes to a descriptor, unbuffered: give large pieces. The disk begins with them in
// pieces of some MiB, so that sync_file() has less to wait for. path: for messages. written_bytes:
// of the file; what is written is added, also before an error.
Status write_to_file(int fd, const std::string& path, std::span<const std::byte> bytes,
                     std::uint64_t& written_bytes);

// fsync of a file with so many bytes.
Status sync_file(int fd, const std::string& path, std::uint64_t written_bytes);

}  // namespace sparcl
