#include "src/model/output_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/folder_list.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

namespace fs = std::filesystem;

bool is_shard(const std::string& name) {
  return name.ends_with(kShardSuffix) || name.ends_with(kIndexSuffix);
}

bool names(const Layout& layout, const std::string& name) {
  const auto is_it = [&](const FileLayout& file) { return file.name == name; };
  return layout.index_name == name || std::any_of(layout.files.begin(), layout.files.end(), is_it);
}

Status failed(const std::string& path, const std::string& what, const std::error_code& error) {
  return Status(Code::kSystemError, fmt::format("{}: {}: {}", path, what, error.message()));
}

// "a/b/" and "a/b" name the same folder, but only the second has "b" as its last component.
std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool is_real_folder(const fs::path& path) {  // no link to one
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::directory;
}

// Refuses shards that would be lost, and folders in the way, because folders are kept.
Status refuse_what_would_be_lost(const std::string& path, const Layout& written,
                                 const Layout* replaced) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> found, names_in_folder(path));
  for (const std::string& name : found) {
    if (is_real_folder(fs::path(path) / name)) {
      if (!names(written, name)) continue;
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: it holds a folder {}, and a file of this name is to be "
                                "written: move the folder, or give another output",
                                path, in_quotes(name)));
    }
    if (!is_shard(name) || names(written, name) || (replaced != nullptr && names(*replaced, name)))
      continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it holds {}, which would be lost: give another output", path,
                              in_quotes(name)));
  }
  return {};
}

}  // namespace

Result<OutputFolder> OutputFolder::create(const std::string& path, const Layout& written,
                                          const Layout* replaced) {
  std::error_code error;
  std::string place = without_trailing_slash(path);
  const bool is_link = fs::is_symlink(fs::symlink_status(place, error));
  const bool exists = fs::exists(place, error);
  if (exists && !fs::is_directory(place, error)) {
    return Status(
        Code::kInvalidArgument,
        fmt::format(
            "{}: a folder of shards is to be written, but this is no folder: give another output",
            path));
  }
  if (exists && !is_link) {
    place = fs::canonical(place, error).string();  // "." gets a name
    if (error) return failed(path, "cannot be examined", error);
    SPARCL_RETURN_IF_ERROR(refuse_what_would_be_lost(place, written, replaced));
  }
  std::optional<TemporaryPath> temporary = TemporaryPath::create_folder(place, error);
  if (!temporary) return failed(path, "cannot be created", error);
  OutputFolder folder(std::move(place), std::move(*temporary), is_link, exists && !is_link);
  // Opened while an error changes nothing: later there may be no descriptor left to remove it by.
  if (folder.is_folder_ && !folder.temporary_.hold(folder.path_))
    return system_error(folder.path_, "cannot be opened");
  if (exists) {
    fs::permissions(folder.temporary_.path(), fs::status(folder.path_, error).permissions(), error);
    if (error) return failed(path, "its permissions cannot be kept", error);
  }
  return folder;
}

Status OutputFolder::link_kept_files(std::span<const std::string> dropped) const {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(path_));
  for (const std::string& name : names) {
    const fs::path kept = fs::path(path_) / name;
    std::error_code error;
    if (is_shard(name) || is_real_folder(kept) || fs::exists(inside(name), error) ||
        std::ranges::find(dropped, name) != dropped.end())
      continue;
    if (::linkat(AT_FDCWD, kept.c_str(), AT_FDCWD, inside(name).c_str(), 0) == 0) continue;
    fs::copy(kept, inside(name), fs::copy_options::copy_symlinks,
             error);  // a file system without hard links
    if (error) return failed(kept.string(), "cannot be kept beside the new shards", error);
  }
  return {};
}

Status OutputFolder::make_room_for(const std::string& name) const {
  std::error_code error;
  if (!is_folder_ || !fs::is_directory(fs::symlink_status(fs::path(path_) / name, error)))
    return {};
  return Status(
      Code::kInvalidArgument,
      fmt::format("{}: it holds a folder {}, where a file is to be written: give another output",
                  path_, in_quotes(name)));
}

// `place` is about to be removed with all that it holds.
bool OutputFolder::is_old(const std::string& place) const {
  std::error_code ignored;
  return is_link_ ? fs::is_symlink(fs::symlink_status(place, ignored)) : temporary_.has_held(place);
}

Status OutputFolder::replaced_meanwhile(const std::string& aside, bool is_back) const {
  return Status(Code::kSystemError,
                fmt::format("{}: another program has replaced it during the call: {}: let one "
                            "program at a time write to it",
                            path_,
                            is_back ? "what it has put there stays, and nothing is written"
                                    : "what it has put there is now " + aside));
}

Status OutputFolder::check_exchanged() {
  const std::string aside = temporary_.path();
  if (is_old(aside)) return {};
  const bool is_back =
      ::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
  if (!temporary_.is_created()) temporary_.release();  // nothing that is not ours is removed
  return replaced_meanwhile(aside, is_back);
}

Status OutputFolder::exchange() {
  temporary_.hide();  // it is about to be the old folder, with folders in it that are to be kept
  const std::string made = temporary_.path();
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0)
    return check_exchanged();
  if (errno != EINVAL && errno != ENOSYS)
    return system_error(path_, "the finished folder cannot be exchanged with this");
  // A file system that cannot exchange: two renames, with a moment in which the folder is not
  // there.
  TemporaryPath old = TemporaryPath::beside(path_, "old-");
  const std::string aside = old.path();
  old.release();
  if (::rename(path_.c_str(), aside.c_str()) != 0)
    return system_error(path_, "cannot be moved aside");
  if (!is_old(aside)) return replaced_meanwhile(aside, ::rename(aside.c_str(), path_.c_str()) == 0);
  if (::rename(made.c_str(), path_.c_str()) != 0) {
    const Status status = system_error(path_, "the finished folder cannot be renamed to this");
    if (::rename(aside.c_str(), path_.c_str()) != 0)
      return system_error(path_, fmt::format("cannot be moved back: it is now {}", aside));
    return status;
  }
  temporary_.take(aside);
  return {};
}

Status OutputFolder::move_kept_folders() const {
  const std::string what = fmt::format(
      "written, but not all of its folders could be kept; they are in {}", temporary_.path());
  const Result<std::vector<std::string>> names = names_in_folder(temporary_.path());
  if (!names.ok()) return names.status().with_prefix(fmt::format("{}: {}: ", path_, what));
  for (const std::string& name : *names) {
    const fs::path kept = fs::path(temporary_.path()) / name;
    if (!is_real_folder(kept)) continue;
    std::error_code error;
    fs::rename(kept, fs::path(path_) / name, error);
    if (error) return failed(path_, what, error);  // the folder must not be removed with the rest
  }
  return {};
}

Status OutputFolder::commit(std::span<const std::string> dropped) {
  if (is_folder_) SPARCL_RETURN_IF_ERROR(link_kept_files(dropped));
  SPARCL_RETURN_IF_ERROR(sync_folder_of(inside("")));
  if (is_folder_ || is_link_) {
    SPARCL_RETURN_IF_ERROR(exchange());
    const Status moved = is_folder_ ? move_kept_folders() : Status();
    if (!moved.ok()) temporary_.release();  // nothing that is not ours is removed
    SPARCL_RETURN_IF_ERROR(moved);
  } else {
    if (::rename(temporary_.path().c_str(), path_.c_str()) != 0)
      return system_error(path_, "the finished folder cannot be renamed to this");
    temporary_.release();
  }
  return make_name_last(path_);
}

}  // namespace sparcl::model
