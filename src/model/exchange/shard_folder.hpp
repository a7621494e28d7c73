#pragma once
// What the folder layouts share: shards of U8 tensors that are written one after the other, and
// the text of a folder's index.

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/exchange/folder_format.hpp"
#include "src/model/exchange/tensor_file.hpp"
#include "src/model/shard_index.hpp"
#include "src/model/side_file.hpp"

namespace sparcl::model {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

// The index of the folder at this path, by its usual name. SystemError: it has none.
Result<ShardIndex> read_folder_index(const std::string& path);
bool has_file(const std::string& folder, const char* name);

// Writes a file of a new folder.
Status write_into(FolderWrite& out, const std::string& name, std::span<const std::byte> bytes);

// model-00001-of-00003.safetensors; shard: from 0.
std::string usual_shard_name(std::size_t shard, std::size_t shards);

// Collects tensors, and writes a shard when the next would exceed the limit.
class ShardWriter {
 public:
  using Namer = std::string (*)(std::size_t shard, std::size_t shards);
  explicit ShardWriter(FolderWrite& out, Namer namer = usual_shard_name)
      : out_(out), namer_(namer) {}

  // metadata: the value of this tensor in the shard's __metadata__; "": none.
  Status add(const std::string& tensor, std::vector<std::byte> payload, std::string metadata);
  // Gives the shards their names, and returns which holds which tensor, in the order of add().
  Result<std::vector<std::pair<std::string, std::string>>> finish();

 private:
  Status flush();

  FolderWrite& out_;
  Namer namer_;
  TensorFile shard_;
  std::uint64_t shard_bytes_ = 0;
  std::vector<std::vector<std::string>> tensors_;  // of each shard written
};

struct VersionPair {
  std::uint64_t base = 0, target = 0;
};
// Of a folder that was read. They count as the change's own, unless it was made from a delta of
// ours, which names its own or none.
void name_folder_versions(std::uint64_t base, std::uint64_t target, SparseChange& change);
// The versions of the change, or of the folder that it came from; else those that follow from the
// name of the new folder
// (weight_v000007, delta-00000007). InvalidArgument: neither names one.
Status choose_versions(const SparseChange& change, const FolderWrite& out, VersionPair& versions);

// The base's side files, with those that the change brings.
Result<std::vector<SideFile>> new_side_files(const SparseChange& change, const ChangeBase& base);

// The index as JSON, in these orders.
std::string render_index(const Metadata& metadata,
                         std::span<const std::pair<std::string, std::string>> weight_map);

}  // namespace sparcl::model
