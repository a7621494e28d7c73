#include "src/base/files/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "src/base/files/file_reader.hpp"
#include "src/base/files/file_writing.hpp"

namespace sparcl {

namespace fs = std::filesystem;

Status sync_folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(folder, "cannot be opened");
  // Some file systems have no fsync for folders: EINVAL then is no error.
  const bool failed = ::fsync(fd) != 0 && errno != EINVAL;
  const Status status = failed ? system_error(folder, "cannot be synchronised") : Status();
  ::close(fd);
  return status;
}

Status make_name_last(const std::string& path) {
  return sync_folder_of(path).with_prefix(
      fmt::format("{}: the new one is there, whole, but may be gone after a power failure, and the "
                  "old one back: ",
                  path));
}

Result<AtomicFile> AtomicFile::create(const std::string& path, const std::string& permissions_of) {
  if (path.empty())
    return Status(Code::kInvalidArgument, "the name of the output is empty: give one");
  struct stat about;
  const bool exists = ::stat(path.c_str(), &about) == 0;
  if (exists && !S_ISREG(about.st_mode)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is there, and no regular file: give another output", path));
  }
  struct stat kept = about;
  const bool keeps = permissions_of.empty() ? exists : ::stat(permissions_of.c_str(), &kept) == 0;
  const mode_t mode = keeps ? kept.st_mode & 0777 : 0666;  // and less by the umask
  std::string name = path;  // copied before there is a descriptor to lose
  std::optional<TemporaryPath::File> made = TemporaryPath::create_file(path, mode);
  if (!made) return system_error(path, "cannot be created");
  AtomicFile file(std::move(name), std::move(made->path), made->fd);
  if (keeps && ::fchmod(made->fd, mode) != 0)
    return system_error(path, "its permissions cannot be kept");
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      written_bytes_(other.written_bytes_) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  return write_to_file(fd_, path_, bytes, written_bytes_);
}

Status AtomicFile::commit() {
  SPARCL_RETURN_IF_ERROR(commit_in_new_folder());
  return make_name_last(path_);
}

Status AtomicFile::commit_in_new_folder() {
  SPARCL_RETURN_IF_ERROR(sync_file(fd_, path_, written_bytes_));
  // The file stays open, and locked, until it has its name: the lock says that it is in use.
  if (::rename(temporary_.path().c_str(), path_.c_str()) != 0)
    return system_error(path_, "the finished file cannot be renamed to this");
  temporary_.release();
  return {};
}

}  // namespace sparcl
