#pragma once
// How a checkpoint lies in files, apart from its tensors' bytes: enough to write the same tensors
// back byte for byte as they were.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/safetensors_header.hpp"

namespace sparcl::model {

constexpr std::string_view kShardSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

struct FileLayout {
  std::string name;    // inside the folder; empty for a single file
  std::string header;  // the JSON text with its padding

  friend bool operator==(const FileLayout&, const FileLayout&) = default;
};

struct Layout {
  bool is_folder = false;
  std::vector<FileLayout> files;  // a folder's in the order of their names
  std::string index_name;         // "model.safetensors.index.json"; empty: the folder has none
  std::string index;              // its JSON text

  friend bool operator==(const Layout&, const Layout&) = default;
};

// The tensors of all files, file by file, each in the order of its data. Checks an untrusted layout
// as Checkpoint::open() checks files: a valid layout can be written, and opened again with the same
// schema.
Result<Schema> layout_schema(const Layout& layout);

// A plain name: not empty, no '/', no "..", nothing that a terminal or a shell would stumble over.
Status check_file_name(const std::string& name);
Status check_shard_name(const std::string& name);  // and ends in kShardSuffix

// Each tensor is in the file that the index (if there is one) names, and no file holds another.
// file_of[i]: the position of tensor i's file.
Status check_index(const Layout& layout, const Schema& schema,
                   std::span<const std::size_t> file_of);

// One file, with the header that render_header() writes.
Layout single_file_layout(const Schema& schema, const Metadata& metadata);

}  // namespace sparcl::model
