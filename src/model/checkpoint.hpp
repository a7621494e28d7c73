#pragma once
// A state in safetensors files: one file, or a folder of shards with or without an index.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/files/file_reader.hpp"
#include "src/base/status.hpp"
#include "src/model/file_layout.hpp"
#include "src/model/file_watch.hpp"
#include "src/model/schema.hpp"
#include "src/model/zero_memory.hpp"

namespace sparcl::model {

class Checkpoint {
 public:
  // PATH is a .safetensors file or a folder. A folder's shards are those that its
  // *.safetensors.index.json names; all of its tensors must be in the named shards. Without an
  // index they are all *.safetensors files, sorted by name. Files are untrusted: a shard whose name
  // leads out of the folder is refused before it is opened. A symbolic link is its owner's choice,
  // and is followed. All tensors are read into private memory. No file is mapped: if another
  // program truncated a mapped file, this process would crash.
  static Result<Checkpoint> open(const std::string& path, const FileWatch& watch = {});
  // The same without the tensors' bytes: read() and CheckpointSource read them later.
  static Result<Checkpoint> open_unread(const std::string& path);

  const std::string& path() const { return path_; }
  const Layout& layout() const { return layout_; }
  const Schema& schema() const { return schema_; }  // file by file, each in the order of its data

  // Reads bytes of the tensor from the file, from byte `at` on. Corrupt, SystemError: they cannot
  // be read (FileReader).
  Status read(std::size_t tensor, std::uint64_t at, std::span<std::byte> into) const;
  Status read(std::size_t tensor, std::byte* into) const {
    return read(tensor, 0, {into, sizes_[tensor]});
  }
  // Corrupt: another program has written to a file since it was opened, so the bytes read may
  // belong to two versions.
  Status check_unchanged() const;

  // Only if the tensors are in memory.
  std::span<const std::byte> bytes(std::size_t tensor) const {
    return {pointers_[tensor], sizes_[tensor]};
  }
  std::span<const std::byte* const> pointers() const {
    return {pointers_.data(), pointers_.size()};
  }
  std::span<std::byte* const> mutable_pointers() { return pointers_; }

  std::size_t file_of(std::size_t tensor) const {
    return file_of_[tensor];
  }  // position in layout().files
  const Metadata& metadata(std::size_t file) const { return metadata_[file]; }
  std::uint64_t byte_count() const;  // of all tensors
  std::uint64_t byte_count(std::size_t tensor) const { return sizes_[tensor]; }
  // Files of the folder that are named like shards but that its index does not name. They do not
  // belong to the checkpoint. Sorted.
  const std::vector<std::string>& stray_shards() const { return stray_shards_; }
  std::vector<std::string> stray_paths() const;  // the same, with the folder

 private:
  Checkpoint() = default;
  Status add_file(const std::string& path, const std::string& name);
  Status open_folder();
  Status load(const FileWatch& watch);

  std::string path_;
  Layout layout_;
  Schema schema_;
  std::vector<FileReader> readers_;   // of each file
  std::optional<ZeroMemory> memory_;  // of all tensors
  std::vector<std::string> stray_shards_;
  std::vector<Metadata> metadata_;
  std::vector<std::byte*> pointers_;   // never nullptr, not even for an empty tensor
  std::vector<std::uint64_t> places_;  // in their files
  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> file_of_;
};

}  // namespace sparcl::model
