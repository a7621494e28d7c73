// A complete Hugging Face folder, as the same programs write it beside deltas: shards, index,
// config.json. The index may name a checksum_format: then __metadata__ of the shards has the digest
// of each tensor.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/model/exchange/exchange_format.hpp"
#include "src/model/exchange/shard_folder.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr const char* kConfigName = "config.json";

bool is_full_folder(const std::string& path) {
  if (!has_file(path, kConfigName)) return false;
  if (!has_file(path, kIndexName)) return has_file(path, kSingleName);
  const Result<ShardIndex> index = read_folder_index(path);
  return index.ok() && find_metadata(index->metadata, "delta_encoding") == nullptr;
}

// --- reading ---

Status read_full_tensor(const Checkpoint& full, std::size_t i,
                        const std::optional<TensorDigest>& kind, const ChangeBase& base,
                        SparseChange& change) {
  const TensorSchema& tensor = full.schema()[i];
  SPARCL_ASSIGN_OR_RETURN(const std::size_t place, base.find(tensor.name));
  const TensorSchema& held = base.schema()[place];
  if (held != tensor) {
    return Status(Code::kMismatch,
                  fmt::format("tensor {} is {} in the base, {} here", in_quotes(tensor.name),
                              describe_kind(held), describe_kind(tensor)));
  }
  std::vector<std::byte> new_bytes(full.byte_count(i));
  SPARCL_RETURN_IF_ERROR(full.read(i, new_bytes.data()));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> old_bytes, base.read(place));
  SPARCL_ASSIGN_OR_RETURN(std::string digest,
                          digest_of(kind.value_or(TensorDigest::kXxh3), new_bytes));
  if (kind) {
    const std::string* named = find_metadata(full.metadata(full.file_of(i)), tensor.name);
    if (named == nullptr || *named != digest) {
      return corrupt(
          fmt::format("tensor {}: its bytes have {} {}, {} is named: the file is damaged",
                      in_quotes(tensor.name), digest_name(*kind), digest,
                      named == nullptr ? "none" : in_quotes(*named)));
    }
  }
  return base.add(place, old_bytes, new_bytes, kind.value_or(TensorDigest::kXxh3), digest, change);
}

Status read_full(const std::string& path, const ChangeBase& base, const FileWatch& watch,
                 SparseChange& change, std::uint64_t& bytes) {
  SPARCL_ASSIGN_OR_RETURN(const Checkpoint full, Checkpoint::open_unread(path));
  watch.stray_shards(full.stray_paths());
  TensorFile about;
  std::optional<TensorDigest> kind;
  if (!full.layout().index.empty()) {
    SPARCL_ASSIGN_OR_RETURN(ShardIndex index, parse_shard_index(full.layout().index));
    if (const std::string* name = find_metadata(index.metadata, "checksum_format")) {
      const Result<TensorDigest> found = find_digest(*name);
      if (!found.ok()) return found.status().with_prefix(path + ": ");
      kind = *found;
    }
    about.metadata = std::move(index.metadata);
  }
  SPARCL_RETURN_IF_ERROR(read_own_metadata(about, change).with_prefix(path + ": "));
  if (full.schema().size() != base.schema().size()) {
    return Status(Code::kMismatch,
                  fmt::format("{}: it has {} tensors, {} has {}", path, full.schema().size(),
                              base.path(), base.schema().size()));
  }
  const std::uint64_t total = full.byte_count();
  for (std::size_t i = 0; i < full.schema().size(); ++i) {
    SPARCL_RETURN_IF_ERROR(read_full_tensor(full, i, kind, base, change).with_prefix(path + ": "));
    bytes += full.byte_count(i);
    SPARCL_RETURN_IF_ERROR(watch.progress(bytes, total));
  }
  return full.check_unchanged();
}

// --- writing ---

// One shard of the base with the new bytes and their digests.
Status write_shard(const SparseChange& change, const ChangeBase& base, std::size_t file,
                   const std::string& name, FolderWrite& out) {
  const Checkpoint& checkpoint = base.checkpoint();
  TensorFile shard;
  shard.metadata = checkpoint.metadata(file);
  for (std::size_t i = 0; i < checkpoint.schema().size(); ++i) {
    if (checkpoint.file_of(i) != file) continue;
    const TensorSchema& tensor = checkpoint.schema()[i];
    SPARCL_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, base.read(i));
    const TensorChange* const changed = change.find(tensor.name);
    if (changed != nullptr) base.apply(*changed, bytes);
    SPARCL_ASSIGN_OR_RETURN(std::string digest, digest_of(TensorDigest::kAdler32, bytes));
    std::erase_if(shard.metadata, [&](const auto& pair) { return pair.first == tensor.name; });
    shard.metadata.emplace_back(tensor.name, std::move(digest));
    shard.schema.push_back(tensor);
    shard.tensors.push_back(std::move(bytes));
  }
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> content, serialise(shard, 0));
  return write_into(out, name, content);
}

Status write_full(const SparseChange& change, const ChangeBase& base, FolderWrite& out) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<SideFile> side_files, new_side_files(change, base));
  if (std::ranges::find(side_files, kConfigName, &SideFile::name) == side_files.end()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: layout hf-full needs {}: give a base folder that has it",
                              base.path(), kConfigName));
  }
  const Layout& layout = base.checkpoint().layout();
  for (std::size_t i = 0; i < layout.files.size(); ++i) {
    const std::string name = layout.is_folder ? layout.files[i].name : kSingleName;
    SPARCL_RETURN_IF_ERROR(write_shard(change, base, i, name, out));
  }
  for (const SideFile& file : side_files)
    SPARCL_RETURN_IF_ERROR(write_into(out, file.name, file.content));
  std::vector<std::pair<std::string, std::string>> weight_map;
  const Schema& schema = base.checkpoint().schema();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const std::string& name = layout.files[base.checkpoint().file_of(i)].name;
    weight_map.emplace_back(schema[i].name, layout.is_folder ? name : kSingleName);
  }
  Metadata metadata{{"checksum_format", "adler32"}};
  write_own_metadata(change, metadata);
  nlohmann::ordered_json index =
      nlohmann::ordered_json::parse(render_index(metadata, weight_map), nullptr, false);
  index["metadata"]["total_size"] = base.checkpoint().byte_count();
  const std::string text = index.dump(2);
  return write_into(out, kIndexName, std::as_bytes(std::span(text)));
}

}  // namespace

const FolderFormat kHfFullFormat{"hf-full",
                                 "complete folder with config.json, and adler32 of each tensor",
                                 is_full_folder, read_full, write_full};

}  // namespace sparcl::model
