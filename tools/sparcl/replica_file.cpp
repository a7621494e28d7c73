#include "tools/sparcl/replica_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "src/base/folder_list.hpp"
#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/side_file.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_of(std::span<const model::SideFile> files) {
  std::vector<std::string> names;
  for (const model::SideFile& file : files) names.push_back(file.name);
  return names;
}

}  // namespace

Status ReplicaFile::check(const std::string& path) {
  std::error_code error;
  const fs::path folder =
      fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: there is no folder {}", path, folder.string()));
  }
  if (fs::exists(path, error) && !fs::is_regular_file(path, error) &&
      !fs::is_directory(path, error)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is neither a file nor a folder: give another output", path));
  }
  // A damaged checkpoint is replaced; a user's other file is not.
  const bool is_somebodys = fs::is_regular_file(path, error) && fs::file_size(path, error) > 0 &&
                            !path.ends_with(model::kShardSuffix);
  if (!is_somebodys || model::Checkpoint::open_unread(path).ok()) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{}: the file that is there is no checkpoint, and would be replaced: "
                            "remove it, or give another output",
                            path));
}

Result<ReplicaFile> ReplicaFile::open(const std::string& path, const model::Layout& layout) {
  SPARCL_RETURN_IF_ERROR(check(path));
  std::error_code error;
  if (fs::exists(path, error) && fs::is_directory(path, error) != layout.is_folder) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: the publisher's checkpoint is a {}, and this is {}: give another output",
                    path, layout.is_folder ? "folder of shards" : "file",
                    layout.is_folder ? "no folder" : "no file"));
  }
  const fs::path named = path.ends_with('/') ? fs::path(path).parent_path() : fs::path(path);
  if (const int left = remove_leftovers(named.string()); left > 0)
    log_info("{}: {} that a killed process had begun beside it {} removed", path, left,
             left == 1 ? "was" : "were");
  ReplicaFile file(named.string(), layout);
  SPARCL_RETURN_IF_ERROR(file.look_at_side_files());
  return file;
}

Status ReplicaFile::look_at_side_files() {
  std::error_code error;
  if (!layout_.is_folder || !fs::is_directory(path_, error)) return {};
  SPARCL_ASSIGN_OR_RETURN(const std::vector<model::SideFile> files, model::read_side_files(path_));
  if (files.empty()) return {};
  SPARCL_ASSIGN_OR_RETURN(side_digest_, model::digest_of(files));
  brought_names_ = names_of(files);
  return {};
}

std::optional<replication::Digest256> ReplicaFile::side_digest() const {
  return layout_.is_folder ? std::optional(side_digest_) : std::nullopt;
}

bool ReplicaFile::lacks(const std::optional<SideFiles>& files) const {
  const bool has_files = files && files->files != nullptr && !files->files->empty();
  return layout_.is_folder && has_files && files->digest != side_digest_;
}

Status ReplicaFile::read_into(ModelMemory& memory) {
  std::error_code error;
  if (!fs::exists(path_, error)) return {};
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint checkpoint,
                          model::Checkpoint::open_unread(path_));
  replaced_ = checkpoint.layout();
  SPARCL_RETURN_IF_ERROR(memory.read(checkpoint));
  if (checkpoint.layout() == layout_) holds_ = memory.view().hash();
  return {};
}

void ReplicaFile::keep_previous() {
  std::error_code error;
  previous_.reset();
  if (!layout_.is_folder || !fs::is_directory(path_, error)) return;
  const Result<std::vector<std::string>> names = names_in_folder(path_);
  std::optional<TemporaryPath> made = TemporaryPath::create_folder(path_, error);
  if (!names.ok() || !made) return;
  for (const std::string& name : *names) {
    const fs::path from = fs::path(path_) / name;
    if (!fs::is_regular_file(from, error)) continue;
    fs::create_hard_link(fs::canonical(from, error), fs::path(made->path()) / name, error);
    if (!error) continue;
    return log_info("{}: the version before is not kept for engines: {}: {}", path_, name,
                    error.message());
  }
  previous_ = std::move(made);
}

std::optional<std::string> ReplicaFile::previous() const {
  return previous_ ? std::optional(previous_->path()) : std::nullopt;
}

// Files that the publisher does not have any more. Other files may be the user's.
std::vector<std::string> ReplicaFile::names_to_drop(std::span<const std::string> names,
                                                    bool drops_others) const {
  const auto is_wanted = [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::vector<std::string> dropped = own_names_, others = brought_names_;
  std::erase_if(dropped, is_wanted);
  std::erase_if(others, is_wanted);
  if (others.empty()) return dropped;
  const std::string text = shown(fmt::format("{}", fmt::join(others, ", ")));
  if (drops_others) {
    dropped.insert(dropped.end(), others.begin(), others.end());
    print_note(fmt::format("{}: removed, as the publisher has no such files: {}", path_, text));
  } else {
    print_warning(fmt::format(
        "{}: it holds files that the publisher does not have, and engines may read them: {}: "
        "remove them, or give --replace",
        path_, text));
  }
  return dropped;
}

Status ReplicaFile::write(const ModelMemory& memory, const Hash128& hash,
                          const std::optional<SideFiles>& files, bool drops_others) {
  // They came with the folder, and are the publisher's.
  if (files && files->files == nullptr && files->digest == side_digest_ && own_names_.empty())
    own_names_ = std::exchange(brought_names_, {});
  const bool has_new = lacks(files);
  if (holds_ == hash && !has_new) return {};
  std::span<const model::SideFile> written;
  std::vector<std::string> names, dropped;
  if (has_new) {
    written = *files->files;
    names = names_of(written);
    dropped = names_to_drop(names, drops_others);
  }
  SPARCL_RETURN_IF_ERROR(model::write_checkpoint(
      path_, layout_, memory.tensors(), replaced_ ? &*replaced_ : nullptr, written, {}, dropped));
  holds_ = hash;
  if (!has_new) return {};
  side_digest_ = files->digest;
  own_names_ = std::move(names);
  brought_names_.clear();
  return {};
}

}  // namespace sparcl::tool
