#include "src/store/new_object_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/base/files/file_reader.hpp"
#include "src/base/files/file_writing.hpp"
#include "src/store/fresh_open.hpp"
#include "src/store/random_name.hpp"

namespace sparcl::store {
namespace {

constexpr std::string_view kPrefix = ".new-";

Result<std::string> random_name_beside(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const std::string name, random_name());
  return fmt::format("{}{}{}", path.substr(0, path.rfind('/') + 1), kPrefix, name);
}

}  // namespace

bool NewObjectFile::is_name(std::string_view name) { return name.starts_with(kPrefix); }

// A name that is taken is one of an earlier reply to the same request. A stale handle is one of the
// folder.
Result<NewObjectFile> NewObjectFile::create(const std::string& path) {
  for (int tries = 1;; ++tries) {
    SPARCL_ASSIGN_OR_RETURN(std::string temporary, random_name_beside(path));
    NewObjectFile file(path, std::move(temporary));
    file.fd_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.fd_ >= 0) return file;
    if ((errno != EEXIST && errno != ESTALE) || tries == kStaleTries)
      return system_error(path, "cannot be created");
  }
}

Result<NewObjectFile> NewObjectFile::write(const std::string& path, Pieces bytes) {
  SPARCL_ASSIGN_OR_RETURN(NewObjectFile file, create(path));
  for (const std::span<const std::byte> piece : bytes) SPARCL_RETURN_IF_ERROR(file.append(piece));
  SPARCL_RETURN_IF_ERROR(file.sync());
  return file;
}

Status NewObjectFile::append(std::span<const std::byte> bytes) {
  return write_to_file(fd_, path_, bytes, written_bytes_);
}

Status NewObjectFile::sync() { return sync_file(fd_, path_, written_bytes_); }

NewObjectFile::NewObjectFile(NewObjectFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      written_bytes_(other.written_bytes_) {}

NewObjectFile::~NewObjectFile() {
  if (fd_ < 0) return;
  (void)::close(fd_);
  (void)::unlink(temporary_.c_str());
}

// By an open descriptor, which refreshes what an NFS client remembers.
Result<bool> NewObjectFile::is_at_path() const {
  const int fd = open_fresh(path_);
  if (fd < 0) return system_error(path_, "cannot be opened");
  struct stat there, own;
  const bool are_known = ::fstat(fd, &there) == 0 && ::fstat(fd_, &own) == 0;
  const int error = errno;
  (void)::close(fd);
  errno = error;
  if (!are_known) return system_error(path_, "cannot be examined");
  return there.st_dev == own.st_dev && there.st_ino == own.st_ino;
}

// A repeated request to a server whose first answer was lost fails, and finds its own work.
bool NewObjectFile::has_happened() const {
  const int error = errno;
  const Result<bool> is_there = is_at_path();
  errno = error;
  return is_there.ok() && *is_there;
}

Result<bool> NewObjectFile::link_if_absent() const {
  if (::link(temporary_.c_str(), path_.c_str()) == 0) return true;
  if (errno == EEXIST) return is_at_path();
  if (has_happened()) return true;
  return system_error(path_, "the finished file cannot be linked to this");
}

Result<bool> NewObjectFile::can_be_linked() const {
  const std::string second = temporary_ + "-link";
  const bool has_linked = ::link(temporary_.c_str(), second.c_str()) == 0;
  const int error = errno;
  struct stat own;
  const bool can = has_linked || (::fstat(fd_, &own) == 0 && own.st_nlink > 1);
  (void)::unlink(second.c_str());
  if (can) return true;
  constexpr std::array kHasNone{EPERM, EOPNOTSUPP, ENOSYS, EMLINK, EINVAL};
  if (std::ranges::find(kHasNone, error) != kHasNone.end()) return false;
  errno = error;
  return system_error(path_, "a link to a new file cannot be made");
}

Status NewObjectFile::rename_over() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0 && !has_happened())
    return system_error(path_, "the finished file cannot be renamed to this");
  return {};
}

}  // namespace sparcl::store
