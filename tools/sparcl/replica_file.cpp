#include "tools/sparcl/replica_file.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "src/base/files/temporary_path.hpp"
#include "src/base/log.hpp"
#include "src/model/checkpoint_writer.hpp"

namespace sparcl::tool {

namespace fs = std::filesystem;

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
  return ReplicaFile(named.string(), layout);
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

Status ReplicaFile::write(const ModelMemory& memory, const Hash128& hash) {
  if (holds_ == hash) return {};
  SPARCL_RETURN_IF_ERROR(
      model::write_checkpoint(path_, layout_, memory.tensors(), replaced_ ? &*replaced_ : nullptr));
  holds_ = hash;
  return {};
}

}  // namespace sparcl::tool
