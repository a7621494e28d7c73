#include "src/base/files/file_writing.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/file_size_signal.hpp"
#include "src/base/files/file_reader.hpp"

namespace sparcl {

namespace {

constexpr std::uint64_t kFlushBytes = std::uint64_t{8} << 20;  // heuristic

// Errors come with fsync.
void begin_to_flush(int fd, std::uint64_t before, std::uint64_t written_bytes) {
  const std::uint64_t first = before / kFlushBytes * kFlushBytes;
  const std::uint64_t bytes = written_bytes / kFlushBytes * kFlushBytes - first;
  if (bytes > 0)
    (void)::sync_file_range(fd, static_cast<off64_t>(first), static_cast<off64_t>(bytes),
                            SYNC_FILE_RANGE_WRITE);
}

}  // namespace

Status write_to_file(int fd, const std::string& path, std::span<const std::byte> bytes,
                     std::uint64_t& written_bytes) {
  constexpr std::size_t kMaxWrite = std::size_t{1} << 30;  // Linux: at most 2^31 - 4096 at once
  const FileSizeSignalBlock no_signal;
  const std::uint64_t before = written_bytes;
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), std::min(bytes.size(), kMaxWrite));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const bool is_limited = errno == EFBIG;
      const Status failed = system_error(
          path, fmt::format("writing {} bytes at byte {} failed", bytes.size(), written_bytes));
      return is_limited ? Status(failed.code(), failed.message() + file_size_limit_text()) : failed;
    }
    written_bytes += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  begin_to_flush(fd, before, written_bytes);
  return {};
}

Status sync_file(int fd, const std::string& path, std::uint64_t written_bytes) {
  if (::fsync(fd) == 0) return {};
  return system_error(path, fmt::format("{} bytes cannot be brought to the disk", written_bytes));
}

}  // namespace sparcl
