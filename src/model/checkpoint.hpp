#pragma once
// A state in safetensors files: one file, or a folder of shards with or without an index.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/file_layout.hpp"
#include "src/model/mapped_file.hpp"
#include "src/model/schema.hpp"

namespace sparcl::model {

class Checkpoint {
 public:
  // PATH is a .safetensors file or a folder. A folder's shards are those that its *.safetensors.index.json names (all of whose
  // tensors must be where it says), else all *.safetensors in it, in the order of their names. Files are hostile: a shard outside
  // of the folder (by its name or through a symbolic link) is refused before it is opened.
  static Result<Checkpoint> open(const std::string& path, Access access = Access::kReadOnly);
  // The same for files that others may be writing: tensors are had by read() alone, as a file that is cut while it is mapped ends
  // the process.
  static Result<Checkpoint> open_unmapped(const std::string& path);

  const std::string& path() const { return path_; }
  const Layout& layout() const { return layout_; }
  const Schema& schema() const { return schema_; }  // file by file, each in the order of its data

  // Of an unmapped one: all bytes of the tensor. Corrupt, SystemError: they cannot be had (FileReader).
  Status read(std::size_t tensor, std::byte* into) const;

  // Of a mapped one.
  std::span<const std::byte> bytes(std::size_t tensor) const { return {pointers_[tensor], sizes_[tensor]}; }
  std::span<const std::byte* const> pointers() const { return {pointers_.data(), pointers_.size()}; }
  std::span<std::byte* const> mutable_pointers() { return pointers_; }  // to be written where opened with kCopyOnWrite

  std::size_t file_of(std::size_t tensor) const { return file_of_[tensor]; }  // position in layout().files
  const Metadata& metadata(std::size_t file) const { return metadata_[file]; }
  std::uint64_t byte_count() const;  // of all tensors

 private:
  Checkpoint() = default;
  static Result<Checkpoint> open_by(const std::string& path, std::optional<Access> access);
  Status add_file(const std::string& path, const std::string& name, std::optional<Access> access);
  Status open_folder(std::optional<Access> access);
  Status map(const FileReader& file, Access access);

  std::string path_;
  Layout layout_;
  Schema schema_;
  std::vector<MappedFile> maps_;     // of each file, or
  std::vector<FileReader> readers_;  // of each file
  std::vector<Metadata> metadata_;
  std::vector<std::byte*> pointers_;   // never nullptr, not even for an empty tensor
  std::vector<std::uint64_t> places_;  // in their files
  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> file_of_;
};

}  // namespace sparcl::model
