#include "src/base/files/file_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "src/base/error_text.hpp"

namespace sparcl {

Status system_error(const std::string& path, const std::string& what) {
  const int error = errno;
  Status status(Code::kSystemError, fmt::format("{}: {}: {}", path, what, error_text(error)));
  errno = error;
  return status;
}

namespace {

std::int64_t written_ns(const struct stat& about) {
  return about.st_mtim.tv_sec * std::int64_t{1'000'000'000} + about.st_mtim.tv_nsec;
}

}  // namespace

Result<FileReader> FileReader::open(const std::string& path) {
  FileReader file(path);  // copies the path before there is a descriptor to lose
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC |
                                      O_NONBLOCK);  // O_NONBLOCK: a named pipe must not hang us
  if (file.fd_ < 0) return system_error(path, "cannot be opened");
  return examined(std::move(file));
}

Result<FileReader> FileReader::take(const std::string& path, int fd) {
  FileReader file(fd);
  file.path_ = path;
  return examined(std::move(file));
}

Result<FileReader> FileReader::examined(FileReader file) {
  const std::string& path = file.path_;
  struct stat about;
  if (::fstat(file.fd_, &about) != 0) return system_error(path, "cannot be examined");
  if (!S_ISREG(about.st_mode))
    return Status(Code::kInvalidArgument, fmt::format("{}: it is no regular file", path));
  file.byte_count_ = static_cast<std::uint64_t>(about.st_size);
  file.written_ns_ = written_ns(about);
  return file;
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      byte_count_(other.byte_count_),
      written_ns_(other.written_ns_) {}

FileReader::~FileReader() {
  if (fd_ >= 0) ::close(fd_);
}

void FileReader::will_read(std::uint64_t at, std::uint64_t count) const {
  (void)::posix_fadvise(fd_, static_cast<off_t>(at), static_cast<off_t>(count),
                        POSIX_FADV_WILLNEED);
}

Status FileReader::read(std::uint64_t at, std::span<std::byte> into) const {
  constexpr std::size_t kPiece = std::size_t{1}
                                 << 30;  // Linux reads at most 2^31 - 4096 bytes at once
  while (!into.empty()) {
    const ssize_t count =
        ::pread(fd_, into.data(), std::min(into.size(), kPiece), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return system_error(path_,
                          fmt::format("reading {} bytes at byte {} failed", into.size(), at));
    if (count == 0) {
      return Status(
          Code::kCorrupt,
          fmt::format(
              "{}: it ends at byte {} and had {} bytes when it was opened, so another program is "
              "rewriting it. Wait for its end, and replace files by renaming a new one",
              path_, at, byte_count_));
    }
    at += static_cast<std::uint64_t>(count);
    into = into.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status FileReader::check_unchanged() const {
  struct stat about;
  if (::fstat(fd_, &about) != 0) return system_error(path_, "cannot be examined");
  const auto bytes = static_cast<std::uint64_t>(about.st_size);
  if (bytes == byte_count_ && written_ns(about) == written_ns_) return {};
  return Status(
      Code::kCorrupt,
      fmt::format("{}: another program has written to it while it was read ({} bytes then, {} "
                  "now): try again once it is whole, and replace files by renaming a new one",
                  path_, byte_count_, bytes));
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(path));
  std::vector<std::byte> bytes(file.byte_count());
  SPARCL_RETURN_IF_ERROR(file.read(0, bytes));
  SPARCL_RETURN_IF_ERROR(file.check_unchanged());
  return bytes;
}

}  // namespace sparcl
