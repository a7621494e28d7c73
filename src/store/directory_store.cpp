#include "src/store/directory_store.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"

namespace sparcl::store {
namespace {

namespace fs = std::filesystem;

bool is_absent(int error) { return error == ENOENT || error == ENOTDIR; }

// A handle of NFS whose file another client has replaced: a new look-up finds the new one.
constexpr int kStaleTries = 5;

// Makes the folders of a file, each of which then survives a crash.
Status make_folders(const std::string& path) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path folder = fs::path(path).parent_path();
       !folder.empty() && !fs::is_directory(folder, error); folder = folder.parent_path())
    missing.push_back(folder);
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    if (::mkdir(folder->c_str(), 0777) != 0 && errno != EEXIST)
      return system_error(folder->string(), "the folder cannot be made");
    SPARCL_RETURN_IF_ERROR(sync_folder_of(folder->string()));
  }
  return {};
}

Result<AtomicFile> write_beside(const std::string& path, Pieces bytes) {
  SPARCL_RETURN_IF_ERROR(make_folders(path));
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  for (const std::span<const std::byte> piece : bytes) SPARCL_RETURN_IF_ERROR(file.write(piece));
  return file;
}

ObjectInfo info_of(const std::string& key, const struct stat& about) {
  return {key, static_cast<std::uint64_t>(about.st_size), about.st_mtim.tv_sec};
}

// stat(2) of a file: false if there is none.
Result<bool> examine(const std::string& path, struct stat& about) {
  for (int tries = 1;; ++tries) {
    if (::stat(path.c_str(), &about) == 0) return true;
    if (is_absent(errno)) return false;
    if (errno != ESTALE || tries == kStaleTries) return system_error(path, "cannot be examined");
  }
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> DirectoryStore::open(const std::string& folder) {
  if (folder.empty())
    return Status(Code::kInvalidArgument, "the folder of the store is empty: give file:/PATH");
  SPARCL_RETURN_IF_ERROR(make_folders(folder + "/key"));
  if (::access(folder.c_str(), R_OK | X_OK) != 0) return system_error(folder, "cannot be read");
  return std::unique_ptr<ObjectStore>(new DirectoryStore(folder));
}

std::string DirectoryStore::place_of(std::string_view key) const {
  return fmt::format("{}/{}", folder_, key);
}

Result<std::optional<ObjectInfo>> DirectoryStore::look(const std::string& key) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  struct stat about;
  SPARCL_ASSIGN_OR_RETURN(const bool is_there, examine(place_of(key), about));
  if (!is_there || !S_ISREG(about.st_mode)) return std::optional<ObjectInfo>();
  return std::optional(info_of(key, about));
}

Result<bool> DirectoryStore::read(const std::string& key, std::uint64_t first,
                                  std::span<std::byte> into) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  const std::string path = place_of(key);
  for (int tries = 1;; ++tries) {
    struct stat about;
    SPARCL_ASSIGN_OR_RETURN(const bool is_there, examine(path, about));
    if (!is_there) return false;
    const Result<FileReader> file = FileReader::open(path);
    if (file.ok() && (first > file->byte_count() || into.size() > file->byte_count() - first))
      return Status(Code::kCorrupt,
                    fmt::format("{}: it has {} bytes, and bytes {} to {} are wanted", path,
                                file->byte_count(), first, first + into.size()));
    const Status status = file.ok() ? file->read(first, into) : file.status();
    if (status.ok()) return true;
    if (tries == kStaleTries) return status;
  }
}

Result<bool> DirectoryStore::put_if_absent(const std::string& key, Pieces bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  const std::string path = place_of(key);
  struct stat about;
  SPARCL_ASSIGN_OR_RETURN(const bool is_there, examine(path, about));
  if (is_there) return false;
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, write_beside(path, bytes));
  return file.commit_if_absent();
}

Status DirectoryStore::replace(const std::string& key, Pieces bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, write_beside(place_of(key), bytes));
  return file.commit();
}

Status DirectoryStore::list(const std::string& prefix,
                            const std::function<bool(const ObjectInfo&)>& visit) {
  if (!prefix.empty()) SPARCL_RETURN_IF_ERROR(check_key(prefix));
  const std::string root = prefix.empty() ? folder_ : place_of(prefix);
  std::vector<ObjectInfo> found;
  std::error_code error;
  auto at = fs::recursive_directory_iterator(root, error);
  if (is_absent(error.value())) return {};
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string key = fs::path(at->path()).lexically_relative(folder_).string();
    struct stat about;
    if (!check_key(key).ok() || ::stat(at->path().c_str(), &about) != 0 || !S_ISREG(about.st_mode))
      continue;  // unfinished ones, and what is removed meanwhile
    found.push_back(info_of(key, about));
  }
  if (error) {
    errno = error.value();
    return system_error(root, "cannot be listed");
  }
  std::ranges::sort(found, {}, &ObjectInfo::key);
  for (const ObjectInfo& each : found) {
    if (!visit(each)) break;
  }
  return {};
}

Status DirectoryStore::remove(const std::string& key) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  const std::string path = place_of(key);
  if (::unlink(path.c_str()) != 0 && !is_absent(errno))
    return system_error(path, "cannot be removed");
  return {};
}

}  // namespace sparcl::store
