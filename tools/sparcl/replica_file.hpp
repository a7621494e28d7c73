#pragma once
// The checkpoint that a subscriber keeps: replaced whole by each version. A symbolic link in its
// place is replaced itself.

#include <optional>
#include <string>

#include "src/model/file_layout.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::tool {

class ReplicaFile {
 public:
  // InvalidArgument: nothing can be written there, or what is there is no checkpoint, and nothing
  // that its name says is one. Known before there is a publisher.
  static Status check(const std::string& path);
  // InvalidArgument: this layout cannot be written there. What killed processes have left beside it
  // is removed.
  static Result<ReplicaFile> open(const std::string& path, const model::Layout& layout);

  // Where it is a checkpoint with the tensors of `memory`, its bytes go there, so that only what is
  // missing travels. The reason where it is none; ok where there is nothing yet.
  Status read_into(ModelMemory& memory);

  // Its bytes are not those of a version with that hash: the next write is none of what is there
  // already.
  void doubt() { holds_.reset(); }

  // SystemError names path and bytes, and what was there is still there, or says that it is not
  // (write_checkpoint). Nothing is written where it holds this state already.
  Status write(const ModelMemory& memory, const Hash128& hash);

  const std::string& path() const { return path_; }

  // The hash of the state in it, once it was read or written; nothing: it was not, or its layout is
  // another.
  const std::optional<Hash128>& holds() const { return holds_; }

 private:
  ReplicaFile(std::string path, const model::Layout& layout)
      : path_(std::move(path)), layout_(layout) {}

  std::string path_;
  model::Layout layout_;
  std::optional<model::Layout> replaced_;  // of the checkpoint that was there at first
  std::optional<Hash128> holds_;           // of the state in it, in this layout
};

}  // namespace sparcl::tool
