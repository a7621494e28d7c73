#pragma once
// The checkpoint file of a subscriber, or its folder of shards with the files beside them: each
// version replaces it as a whole. A symbolic link in its position is replaced itself.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/files/temporary_path.hpp"
#include "src/model/file_layout.hpp"
#include "src/replication/side_file_book.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::tool {

class ReplicaFile {
 public:
  using SideFiles = replication::SideFileBook::Entry;

  // Checks the path before there is a publisher. InvalidArgument: nothing can be written there, or
  // the existing file is no checkpoint and not named like one.
  static Status check(const std::string& path);
  // InvalidArgument: this layout cannot be written there. Removes leftovers of killed processes
  // beside it.
  static Result<ReplicaFile> open(const std::string& path, const model::Layout& layout);

  // If the file is a checkpoint with the tensors of `memory`, reads its bytes, so that only missing
  // bytes are sent. Otherwise returns the reason; ok if there is no file yet.
  Status read_into(ModelMemory& memory);

  // Of the files beside the shards, or zeros; nothing: it is a file.
  std::optional<replication::Digest256> side_digest() const;
  // The version's files beside the shards are others than the folder has.
  bool lacks(const std::optional<SideFiles>& files) const;

  // Its bytes are not those of the version with that hash: the next write must rewrite the file.
  void doubt() { holds_.reset(); }

  // SystemError names path and bytes, and says whether the old file is still there
  // (write_checkpoint). Nothing is written if the file holds this state and these files already.
  // drops_others: files beside the shards that are not the publisher's are removed.
  Status write(const ModelMemory& memory, const Hash128& hash,
               const std::optional<SideFiles>& files, bool drops_others);

  // From now on the files of the folder stay under another name, until they are dropped: by links,
  // which cost nothing before the folder is replaced. A file system without links keeps none.
  void keep_previous();
  void drop_previous() { previous_.reset(); }
  std::optional<std::string> previous() const;

  const std::string& path() const { return path_; }

  // The hash of the file's state, once it was read or written. Nothing if it was not, or if its
  // layout is another.
  const std::optional<Hash128>& holds() const { return holds_; }

 private:
  Status look_at_side_files();
  std::vector<std::string> names_to_drop(std::span<const std::string> names,
                                         bool drops_others) const;

  ReplicaFile(std::string path, const model::Layout& layout)
      : path_(std::move(path)), layout_(layout) {}

  std::string path_;
  model::Layout layout_;
  std::optional<model::Layout> replaced_;  // of the checkpoint that was there at first
  std::optional<Hash128> holds_;           // of the state in it, in this layout
  // Of the files beside the shards.
  replication::Digest256 side_digest_{};
  std::vector<std::string> own_names_;  // the publisher's, by the last set
  std::optional<TemporaryPath> previous_;
  std::vector<std::string> brought_names_;  // in the folder at first
};

}  // namespace sparcl::tool
