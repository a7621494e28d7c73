#include "src/trust/new_key_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "src/base/file_size_signal.hpp"
#include "src/base/files/file_reader.hpp"

namespace sparcl::trust {
namespace {

constexpr auto kFolderPatience = std::chrono::seconds(10);  // heuristic

bool write_all(int fd, std::string_view text) {
  const FileSizeSignalBlock no_signal;
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

Status check_key_path(const std::string& path) {
  if (!path.empty() && !path.ends_with('/')) return {};
  return Status(
      Code::kInvalidArgument,
      fmt::format("'{}' names no file: give the name under which the key is to be kept", path));
}

Result<NewKeyFile> NewKeyFile::write(const std::string& path, std::string_view text,
                                     bool private_to_owner) {
  const mode_t mode = private_to_owner ? 0600 : 0644;
  std::optional<TemporaryPath::File> made = TemporaryPath::create_file(path, mode);
  if (!made) return system_error(path, "cannot be created");
  const int fd = made->fd;
  Status status;
  if (private_to_owner && ::fchmod(fd, mode) != 0)
    status = system_error(path, "its mode cannot be set to 0600");
  if (status.ok() && !write_all(fd, text)) status = system_error(path, "cannot be written");
  if (status.ok() && ::fsync(fd) != 0) status = system_error(path, "cannot be brought to the disk");
  if (::close(fd) != 0 && status.ok()) status = system_error(path, "cannot be closed");
  if (!status.ok()) return status;
  return NewKeyFile(path, std::move(made->path));
}

Status NewKeyFile::appear() {
  // A link, because rename() would replace an existing file.
  if (::link(present_.path().c_str(), path_.c_str()) != 0) {
    if (errno != EEXIST) return system_error(path_, "the finished file cannot get this name");
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is there already, and keys are never overwritten: give "
                              "another name, or move it away if it is not needed any more",
                              path_));
  }
  ::unlink(present_.path().c_str());
  present_.take(path_);
  return {};
}

std::string behind_links(const std::string& path) {
  std::error_code error;
  const std::filesystem::path found = std::filesystem::canonical(path, error);
  return error ? path : found.string();
}

Result<FileLock> lock_folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return FileLock::of_folder(parent.empty() ? "." : parent.string(), kFolderPatience);
}

FileOwner::FileOwner(const std::string& path) {
  struct stat about;
  if (::stat(path.c_str(), &about) == 0) ids_.emplace(about.st_uid, about.st_gid);
}

Status FileOwner::give_to(const std::string& path) const {
  struct stat about;
  if (!ids_ || ::stat(path.c_str(), &about) != 0) return {};
  if (about.st_uid == ids_->first && about.st_gid == ids_->second) return {};
  if (::chown(path.c_str(), ids_->first, ids_->second) == 0) return {};
  return system_error(path,
                      "the new file cannot be given to the owner of the old one: run this as that "
                      "user");
}

Status NewKeyFile::replace() {
  SPARCL_RETURN_IF_ERROR(FileOwner(path_).give_to(present_.path()));
  if (::rename(present_.path().c_str(), path_.c_str()) != 0)
    return system_error(path_, "the finished file cannot get this name");
  present_.take(path_);
  keep();  // the file before is gone: the new one stays
  return {};
}

void NewKeyFile::keep() { present_.release(); }

}  // namespace sparcl::trust
