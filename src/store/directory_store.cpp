#include "src/store/directory_store.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/folder_list.hpp"
#include "src/store/fresh_open.hpp"
#include "src/store/new_object_file.hpp"

namespace sparcl::store {
namespace {

// Of an object that is read whole. Heuristic.
constexpr std::uint64_t kReadAhead = 8 * kPieceBytes;

ObjectInfo info_of(const std::string& key, const struct stat& about) {
  return {key, static_cast<std::uint64_t>(about.st_size), about.st_mtim.tv_sec};
}

// Of what is there now. False: nothing is.
Result<bool> examine(const std::string& path, struct stat& about) {
  for (int tries = 1;; ++tries) {
    const int fd = open_fresh(path);
    if (fd < 0 && is_absent_error(errno)) return false;
    if (fd < 0) return system_error(path, "cannot be opened");
    const bool is_known = ::fstat(fd, &about) == 0;
    const int error = errno;
    (void)::close(fd);
    if (is_known) return true;
    errno = error;
    if (error != ESTALE || tries == kStaleTries) return system_error(path, "cannot be examined");
  }
}

// For lists: what was there a short while ago does, and no right to read is needed.
Result<bool> examine_quickly(const std::string& path, struct stat& about) {
  for (int tries = 1;; ++tries) {
    if (::stat(path.c_str(), &about) == 0) return true;
    if (is_absent_error(errno)) return false;
    if (errno != ESTALE || tries == kStaleTries) return system_error(path, "cannot be examined");
  }
}

// Calls use(file) with the object's open file, once more if its handle is stale. False: there is
// none.
template <class Use>
Result<bool> with_file(const std::string& path, Use&& use) {
  for (int tries = 1;; ++tries) {
    const int fd = open_fresh(path);
    if (fd < 0 && is_absent_error(errno)) return false;
    if (fd < 0) return system_error(path, "cannot be opened");
    errno = 0;
    const Result<FileReader> file = FileReader::take(path, fd);
    if (file.status().code() == Code::kInvalidArgument) return false;  // a folder of other objects
    const Status status = file.ok() ? use(*file) : file.status();
    if (status.ok()) return true;
    if (errno != ESTALE || tries == kStaleTries) return status;
  }
}

// Also in the folders below. What cannot be read or removed stays.
Result<std::uint64_t> remove_unfinished_in(const std::string& folder, std::int64_t before_s) {
  std::uint64_t removed = 0;
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(folder));
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    struct stat about;
    if (::lstat(path.c_str(), &about) != 0) continue;
    if (S_ISREG(about.st_mode) && NewObjectFile::is_name(name) && about.st_mtime < before_s)
      removed += ::unlink(path.c_str()) == 0 ? 1 : 0;
    if (!S_ISDIR(about.st_mode) || name.starts_with('.')) continue;
    const Result<std::uint64_t> below = remove_unfinished_in(path, before_s);
    removed += below.ok() ? *below : 0;
  }
  return removed;
}

bool about_is_file(const std::string& path) {
  struct stat about;
  return ::stat(path.c_str(), &about) == 0 && !S_ISDIR(about.st_mode);
}

}  // namespace

Result<std::unique_ptr<ObjectStore>> DirectoryStore::open(const std::string& folder,
                                                          Missing missing) {
  if (folder.empty())
    return Status(Code::kInvalidArgument, "the folder of the store is empty: give file:/PATH");
  struct stat about;
  if (missing == Missing::kIsAnError && ::stat(folder.c_str(), &about) != 0) {
    const Status fault = system_error(folder, "the store cannot be opened");
    return Status(fault.code(),
                  fmt::format("{}: is the path right, and its file system mounted? A publisher "
                              "makes the store with its first version",
                              fault.message()));
  }
  if (about_is_file(folder))
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is no folder, so nothing can lie below it", folder));
  const std::size_t end = folder.find_last_not_of('/');
  return std::unique_ptr<ObjectStore>(
      new DirectoryStore(end == std::string::npos ? "/" : folder.substr(0, end + 1)));
}

// Before the first object: readers need no right to write.
Status DirectoryStore::probe_links() {
  if (has_probed_) return {};
  Result<NewObjectFile> made = NewObjectFile::write(folder_ + "/probe", {});
  if (!made.ok())
    return made.status().with_prefix(
        "no file can be written to the store; the first one shows whether its file system has "
        "links between files: ");
  const NewObjectFile probe = std::move(*made);
  SPARCL_ASSIGN_OR_RETURN(has_probed_, probe.can_be_linked());
  if (has_probed_) return {};
  return Status(Code::kUnsupported,
                fmt::format("{}: its file system has no links between files, which decide between "
                            "two writers: give a folder of another file system",
                            folder_));
}

// Makes the folders of a file. The names of those below the store, and of those that this call
// makes, are brought to the disk, whoever has made them.
Status DirectoryStore::make_folder_of(const std::string& path) {
  const std::lock_guard lock(making_);
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    if (is_durable_.contains(folder)) continue;
    const bool is_new = ::mkdir(folder.c_str(), 0777) == 0;
    const int error = errno;
    struct stat about;
    SPARCL_ASSIGN_OR_RETURN(bool is_there, examine_quickly(folder, about));
    if (!is_there) {
      SPARCL_ASSIGN_OR_RETURN(is_there, examine(folder, about));
    }
    if (!is_there) {
      errno = error;
      return system_error(folder, "the folder cannot be made");
    }
    if (!S_ISDIR(about.st_mode))
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: it is no folder, so nothing can lie below it", folder));
    if (is_new || folder.size() > folder_.size()) SPARCL_RETURN_IF_ERROR(sync_folder_of(folder));
    is_durable_.insert(folder);
  }
  return probe_links();
}

std::string DirectoryStore::location_of(std::string_view key) const {
  return fmt::format("{}/{}", folder_, key);
}

Result<std::optional<ObjectInfo>> DirectoryStore::look(const std::string& key) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  struct stat about;
  SPARCL_ASSIGN_OR_RETURN(const bool is_there, examine(location_of(key), about));
  if (!is_there || !S_ISREG(about.st_mode)) return std::optional<ObjectInfo>();
  return std::optional(info_of(key, about));
}

Result<std::optional<std::vector<std::byte>>> DirectoryStore::read_all(const std::string& key,
                                                                       std::size_t max_bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  std::optional<std::vector<std::byte>> content;
  SPARCL_ASSIGN_OR_RETURN(
      const bool is_there, with_file(location_of(key), [&](const FileReader& file) {
        if (file.byte_count() > max_bytes)
          return Status(Code::kCorrupt, fmt::format("{}: it has {} bytes, and at most {} are read",
                                                    file.path(), file.byte_count(), max_bytes));
        content.emplace(file.byte_count());
        return file.read(0, *content);
      }));
  if (!is_there) content.reset();
  return content;
}

Result<bool> DirectoryStore::read(const std::string& key, std::uint64_t first,
                                  std::span<std::byte> into) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  return with_file(location_of(key), [&](const FileReader& file) {
    if (first <= file.byte_count() && into.size() <= file.byte_count() - first)
      return file.read(first, into);
    return Status(Code::kCorrupt,
                  fmt::format("{}: it has {} bytes, and bytes {} to {} are wanted", file.path(),
                              file.byte_count(), first, first + into.size()));
  });
}

Result<bool> DirectoryStore::read_whole(const std::string& key, std::uint64_t bytes,
                                        std::uint64_t first, const PieceSink& sink) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  Status refused;
  SPARCL_ASSIGN_OR_RETURN(
      const bool is_there, with_file(location_of(key), [&](const FileReader& file) {
        if (file.byte_count() != bytes)
          return Status(Code::kCorrupt, fmt::format("{}: it has {} bytes, and its record says {}",
                                                    file.path(), file.byte_count(), bytes));
        // A handle that is stale is opened again, and reading goes on.
        for (; first < bytes && refused.ok(); first += kPieceBytes) {
          if (first % kReadAhead == 0) file.will_read(first, 2 * kReadAhead);
          const std::span<std::byte> piece = sink.memory(
              first, static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes - first)));
          SPARCL_RETURN_IF_ERROR(file.read(first, piece));
          refused = sink.take(piece);
        }
        return Status();
      }));
  SPARCL_RETURN_IF_ERROR(refused);
  return is_there;
}

Result<bool> DirectoryStore::put_if_absent(const std::string& key, Pieces bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  const std::string path = location_of(key);
  SPARCL_RETURN_IF_ERROR(make_folder_of(path));
  struct stat about;
  SPARCL_ASSIGN_OR_RETURN(bool is_there, examine(path, about));
  if (is_there && !S_ISREG(about.st_mode))
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is a folder of other objects, and cannot be one", path));
  bool is_new = false;
  if (!is_there) {
    SPARCL_ASSIGN_OR_RETURN(const NewObjectFile file, NewObjectFile::write(path, bytes));
    SPARCL_ASSIGN_OR_RETURN(is_new, file.link_if_absent());
  }
  SPARCL_RETURN_IF_ERROR(sync_folder_of(path));  // also for another writer's object
  return is_new;
}

class DirectoryStore::Writer final : public ObjectWriter {
 public:
  Writer(std::string path, NewObjectFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Status write(std::span<const std::byte> bytes) override { return file_.append(bytes); }
  Result<bool> finish() override {
    SPARCL_RETURN_IF_ERROR(file_.sync());
    SPARCL_ASSIGN_OR_RETURN(const bool is_new, file_.link_if_absent());
    SPARCL_RETURN_IF_ERROR(sync_folder_of(path_));
    return is_new;
  }

 private:
  std::string path_;
  NewObjectFile file_;
};

Result<std::unique_ptr<ObjectWriter>> DirectoryStore::begin(const std::string& key,
                                                            std::uint64_t /*max_bytes*/) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  const std::string path = location_of(key);
  SPARCL_RETURN_IF_ERROR(make_folder_of(path));
  SPARCL_ASSIGN_OR_RETURN(NewObjectFile file, NewObjectFile::create(path));
  return std::unique_ptr<ObjectWriter>(std::make_unique<Writer>(path, std::move(file)));
}

Status DirectoryStore::replace(const std::string& key, Pieces bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  const std::string path = location_of(key);
  SPARCL_RETURN_IF_ERROR(make_folder_of(path));
  SPARCL_ASSIGN_OR_RETURN(NewObjectFile file, NewObjectFile::write(path, bytes));
  SPARCL_RETURN_IF_ERROR(file.rename_over());
  return sync_folder_of(path);
}

struct DirectoryStore::Listing {
  ListCount count;
  std::vector<ObjectInfo> found;
  std::vector<struct stat> open;  // the folders that lead to the one that is being read
};

// Links to folders are followed. One that leads back to where it is would never end.
Status DirectoryStore::list_folder(const std::string& prefix, const struct stat& about,
                                   Listing& listing) const {
  const std::string path = prefix.empty() ? folder_ : location_of(prefix);
  for (const struct stat& each : listing.open) {
    if (each.st_dev == about.st_dev && each.st_ino == about.st_ino)
      return Status(Code::kCorrupt,
                    fmt::format("{}: it is a link to a folder that it is in: remove it", path));
  }
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(path));
  listing.open.push_back(about);
  for (const std::string& name : names) {
    SPARCL_RETURN_IF_ERROR(listing.count.add());
    const std::string key = prefix.empty() ? name : prefix + "/" + name;
    if (!check_key(key).ok()) continue;  // unfinished files, and what is no part of the store
    struct stat entry;
    SPARCL_ASSIGN_OR_RETURN(const bool is_there, examine_quickly(location_of(key), entry));
    if (!is_there) continue;  // it was removed meanwhile
    if (S_ISREG(entry.st_mode)) listing.found.push_back(info_of(key, entry));
    if (S_ISDIR(entry.st_mode) && ::access(location_of(key).c_str(), R_OK | X_OK) == 0)
      SPARCL_RETURN_IF_ERROR(list_folder(key, entry, listing));
  }
  listing.open.pop_back();
  return {};
}

Status DirectoryStore::list(const std::string& prefix,
                            const std::function<bool(const ObjectInfo&)>& visit) {
  if (!prefix.empty()) SPARCL_RETURN_IF_ERROR(check_key(prefix));
  const std::string root = prefix.empty() ? folder_ : location_of(prefix);
  struct stat about;
  SPARCL_ASSIGN_OR_RETURN(const bool is_there, examine(root, about));
  Listing listing{ListCount(root + ": "), {}, {}};
  if (is_there && S_ISDIR(about.st_mode))
    SPARCL_RETURN_IF_ERROR(list_folder(prefix, about, listing));
  std::ranges::sort(listing.found, {}, &ObjectInfo::key);
  for (const ObjectInfo& each : listing.found) {
    if (!visit(each)) break;
  }
  return {};
}

Result<std::uint64_t> DirectoryStore::remove_unfinished(std::int64_t before_s) {
  return remove_unfinished_in(folder_, before_s);
}

Status DirectoryStore::remove(const std::string& key) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  const std::string path = location_of(key);
  if (::unlink(path.c_str()) != 0 && !is_absent_error(errno) && errno != EISDIR)
    return system_error(path, "cannot be removed");
  return {};
}

}  // namespace sparcl::store
